package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"trireme/launch"
)

// machine is a launcher's part of the protocol: step takes an event and returns what to do. It does no I/O and
// reads no clock, so that a simulation can run it (sim_test.go).
//
// Launchers see the store's changes in one order. The first live host of a generation (or before it, the first
// to join) decides what follows: it writes the next generation, or the result. Others do so after it is lost.
// A compare-and-swap lets one of two that believe to be the first write. A host runs a generation
// if it is a member, and only after its workers of the previous one have ended.
type machine struct {
	settings
	self host // ID and Order are set by registering

	now  time.Duration
	wake time.Duration // when the next step is due at the latest; 0: none
	out  []action

	synced     bool
	registered bool
	lostAt     time.Duration // when the registration was lost
	hosts      map[string]host
	gen        *generation
	revision   uint64                   // of gen
	failing    map[string]notice        // by "NUMBER/ID"
	ends       map[string]end           // by "NUMBER/ID"
	pending    map[string]retry         // writes whose effect is not seen yet
	own        map[string][]byte        // this host's records, by key
	run        *running                 // nil: no workers
	ran        int                      // the last generation that this host ran, or refused
	ranID      string                   // its RunID
	signal     syscall.Signal           // the first stop signal that this launcher received
	kill       bool                     // a second SIGINT
	forming    map[string]time.Duration // since when a condition holds, for this revision of gen
	waiting    progress
	result     *result
	left       bool
	finished   bool
}

// settings are the parts of Config that the protocol depends on.
type settings struct {
	least, most, restarts int
	elastic               bool
	serves                bool   // runs the store: leaves last
	replicated            bool   // the store needs other launchers
	keeps                 bool   // the store outlives the job
	store                 string // in messages
	runID                 string
	masterAddr            string
	masterPort            int
	Conf
	grace time.Duration // of launch.Config
}

// running are this host's workers.
type running struct {
	number   int
	canceled bool
	stopped  bool // a stop signal was forwarded
	killed   bool
}

type retry struct {
	revision uint64 // of the condition
	at       time.Duration
}

// retryAfter is the time after which a write whose effect is not seen is repeated.
const retryAfter = time.Second

func newMachine(s settings, self host) *machine {
	return &machine{settings: s, self: self, ran: -1, hosts: map[string]host{}, failing: map[string]notice{}, ends: map[string]end{},
		pending: map[string]retry{}, own: map[string][]byte{}, forming: map[string]time.Duration{}}
}

// step takes an event at a time, which does not decrease, and returns the actions in order. wake is the time of
// the next tick, or 0.
func (m *machine) step(now time.Duration, e event) (out []action, wake time.Duration) {
	m.now, m.out, m.wake = now, nil, 0
	m.apply(e)
	if !m.finished {
		m.decide()
	}
	return m.out, m.wake
}

func (m *machine) do(a action) { m.out = append(m.out, a) }

// reached reports whether it is t or later. Otherwise step is called again at t.
func (m *machine) reached(t time.Duration) bool {
	if m.now >= t {
		return true
	}
	if m.wake == 0 || t < m.wake {
		m.wake = t
	}
	return false
}

// since returns since when a condition holds, for this revision of the generation.
func (m *machine) since(condition string) time.Duration {
	at, ok := m.forming[condition]
	if !ok {
		at = m.now
		m.forming[condition] = at
	}
	return at
}

// apply updates the state.
func (m *machine) apply(e event) {
	switch e := e.(type) {
	case changed:
		m.change(e)
	case reset:
		m.synced, m.hosts, m.failing, m.ends = false, map[string]host{}, map[string]notice{}, map[string]end{}
	case synced:
		m.synced = true
		if m.keeps && !m.registered && m.lostAt == 0 && m.result == nil && m.gen != nil && m.gen.Result != nil {
			m.finish(&result{Code: launch.CodeUsage, Text: fmt.Sprintf("%s has the end of an earlier job %s. try: another --rdzv-id", m.store, m.runID)})
		}
	case registered:
		m.self, m.registered, m.lostAt = e.host, true, 0
		delete(m.pending, registering)
	case unregistered:
		if m.registered {
			m.registered, m.lostAt = false, m.now
			if m.replaces() && m.result == nil {
				m.do(say{fmt.Sprintf("this host lost %s: joining again, for up to %v (read_timeout)", m.store, m.Return)})
			}
		}
	case failing:
		if m.run != nil && e.number == m.run.number {
			m.own[recordKey(failingPrefix, e.number, m.self.ID)] = encode(e.code)
		}
	case ended:
		m.run = nil
		if m.registered && m.self.ID == e.id && m.result == nil { // otherwise this host is lost for the others
			m.own[recordKey(endsPrefix, e.number, e.id)] = encode(e.end)
			m.ends[recordKey("", e.number, e.id)] = e.end
		}
	case signaled:
		m.signaled(e.signal)
	case abandoned:
		m.finish(&result{Code: e.code, Text: e.why})
	}
}

func (m *machine) change(e changed) {
	delete(m.pending, e.key)
	decode := func(to any) bool { return e.value != nil && json.Unmarshal(e.value, to) == nil }
	switch rest := ""; {
	case e.key == generationKey:
		var g generation
		if e.revision > m.revision && decode(&g) {
			if m.gen == nil || g.Number != m.gen.Number {
				clear(m.forming)
			}
			m.gen, m.revision = &g, e.revision
		}
	case cut(e.key, hostsPrefix, &rest):
		var h host
		_, known := m.hosts[rest]
		if delete(m.hosts, rest); decode(&h) {
			m.hosts[rest] = h
			if why := contradiction(h, m.self); why != "" && !known && m.registered && m.first() && h.Order > m.self.Order {
				m.do(say{why + ". it was refused; this job waits for another"})
			}
		}
	case cut(e.key, failingPrefix, &rest):
		n := notice{revision: e.revision}
		if _, known := m.failing[rest]; !known && decode(&n.code) {
			m.failing[rest] = n
		}
	case cut(e.key, endsPrefix, &rest):
		var got end
		if decode(&got) {
			m.ends[rest] = got
			delete(m.own, e.key)
		}
	}
}

func cut(s, prefix string, rest *string) (ok bool) {
	*rest, ok = strings.CutPrefix(s, prefix)
	return ok
}

func (m *machine) signaled(s syscall.Signal) {
	switch {
	case s == syscall.SIGQUIT || s == syscall.SIGTSTP:
		m.do(forward{s})
	case m.signal == 0:
		m.signal = s
		if m.run != nil && !m.run.stopped {
			m.run.stopped = true
			m.do(forward{s})
		}
	case s == syscall.SIGINT && !m.kill:
		m.kill = true
	}
}

// decide does what the state requires. It is called after each event.
func (m *machine) decide() {
	m.publish()
	switch {
	case m.run != nil:
		m.control()
	case m.result != nil:
		m.leave()
	case m.signal != 0 && m.gen.index(m.self.ID) < 0 && !m.requestEnd():
		m.finish(&result{Code: (&launch.StopRequest{Signal: m.signal}).Code()})
	case m.kill:
		m.finish(&result{Code: launch.CodeInterrupted, Killed: true})
	case !m.registered:
		m.join()
	case m.synced && m.gen != nil && m.gen.Result != nil:
		m.finish(m.gen.Result)
	case m.synced && m.registered:
		m.begin()
	}
	if m.synced && m.registered && m.result == nil && m.refused() == nil {
		m.requestStop()
		m.coordinate()
		m.progress()
	}
}

// publish writes this host's records until the watch shows them.
func (m *machine) publish() {
	for _, key := range slices.Sorted(maps.Keys(m.own)) {
		if rest := ""; cut(key, failingPrefix, &rest) {
			if _, known := m.failing[rest]; known {
				delete(m.own, key)
				continue
			}
		}
		if m.registered {
			m.write(key, m.own[key], 0)
		}
	}
}

// write writes a key, unless that was done and the effect is not known yet. Revision 0 creates the key.
func (m *machine) write(key string, value []byte, revision uint64) {
	if p, ok := m.pending[key]; ok && p.revision == revision && !m.reached(p.at+retryAfter) {
		return
	}
	m.pending[key] = retry{revision, m.now}
	m.reached(m.now + retryAfter)
	m.do(write{key, value, revision})
}
