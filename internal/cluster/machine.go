package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

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

// registering is the key of a new registration in pending.
const registering = "register"

// settle is the time that workers have to fail by themselves after a worker of another host has.
const settle = 150 * time.Millisecond

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
		if m.keeps && !m.registered && m.result == nil && m.gen != nil && m.gen.Result != nil {
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

// begin starts the workers of a generation of this host.
func (m *machine) begin() {
	if err := m.refused(); err != nil {
		m.finish(err)
		return
	}
	g := m.gen
	i := g.index(m.self.ID)
	if i < 0 || g.RunID == m.ranID && g.Number <= m.ran {
		return
	}
	m.ran, m.ranID = g.Number, g.RunID
	if g.Stop != nil || m.signal != 0 {
		s := m.signal
		if s == 0 {
			s = g.Stop.Signal
		}
		e := end{Code: (&launch.StopRequest{Signal: s}).Code(), Ended: true}
		m.ends[recordKey("", g.Number, m.self.ID)] = e
		m.own[recordKey(endsPrefix, g.Number, m.self.ID)] = encode(e)
		m.publish()
		return
	}
	m.run = &running{number: g.Number}
	if g.Cause != "" {
		m.do(say{g.Cause})
	}
	if m.most > 1 {
		m.do(say{g.describe(i)})
	}
	m.do(start{*g, i})
}

// control ends or stops the running workers when the generation requires it.
func (m *machine) control() {
	r, g := m.run, m.gen
	halt := func(why string) {
		if !r.canceled {
			r.canceled = true
			m.do(cancel{why})
		}
	}
	switch {
	case !m.registered:
		halt("this host lost the job's store")
	case g.Number != r.number || g.RunID != m.ranID:
		halt("the job continued without this host")
	case g.Result != nil:
		halt("the job has ended")
	default:
		if s := g.Stop; s != nil && !r.stopped {
			r.stopped = true
			if s.Reform {
				m.do(say{s.Host + " joins the job: stopping to start again with it"})
			} else {
				m.do(say{fmt.Sprintf("host %s received %s: stopping", s.Host, unix.SignalName(s.Signal))})
			}
			m.do(forward{s.Signal})
		}
		if kill := m.kill || g.Stop != nil && g.Stop.Kill; kill && !r.killed {
			r.killed = true
			m.do(forward{syscall.SIGINT})
		}
		if why := m.othersEnded(); why != "" {
			halt(why)
		}
	}
}

// othersEnded returns why this host's workers cannot continue, or "".
func (m *machine) othersEnded() string {
	for _, h := range m.gen.Hosts {
		if h.ID == m.self.ID {
			continue
		}
		key := recordKey("", m.gen.Number, h.ID)
		got, hasEnd := m.ends[key]
		if _, live := m.hosts[h.ID]; !live && !hasEnd && m.synced {
			return "host " + h.Name + " is lost"
		}
		code := got.Code
		if n, ok := m.failing[key]; ok {
			code = n.code
		} else if !hasEnd || got.Failure == nil && got.Text == "" && !got.Ended && !got.Killed {
			continue
		}
		wait := settle
		if code == launch.CodePeerLost { // the cause may be here
			wait = m.grace / 2
		}
		if m.reached(m.since("failed "+key) + wait) {
			return "a worker on host " + h.Name + " failed"
		}
	}
	return ""
}

// requestStop passes this launcher's stop signal to the other hosts.
func (m *machine) requestStop() {
	if m.signal == 0 || m.gen == nil || m.gen.Result != nil {
		return
	}
	s := m.gen.Stop
	if s != nil && !s.Reform && (s.Kill || !m.kill) || m.gen.index(m.self.ID) < 0 {
		return
	}
	g := *m.gen
	g.Stop = &stop{Signal: m.signal, Kill: m.kill, Host: m.self.Name}
	m.write(generationKey, encode(&g), m.revision)
}

// requestEnd ends a job with a fixed number of hosts that has not started yet, after a stop signal. It reports
// whether the result is to be seen.
func (m *machine) requestEnd() bool {
	if m.elastic || m.gen != nil || !m.synced || !m.registered || m.reached(m.since("stop")+retryAfter) {
		return false
	}
	m.write(generationKey, encode(&generation{Result: &result{Code: (&launch.StopRequest{Signal: m.signal}).Code()}}), 0)
	return true
}

// join registers this host, also after the registration was lost.
func (m *machine) join() {
	again := m.lostAt > 0
	switch {
	case again && m.gen != nil && m.gen.Result != nil && m.synced:
		m.finish(m.gen.Result)
	case again && (!m.replaces() && m.reached(m.lostAt+2*m.Lease) || m.reached(m.lostAt+m.Return)):
		m.finish(&result{Code: launch.CodePeerLost, Text: fmt.Sprintf("no answer from %s for %v", m.store, (m.now - m.lostAt + m.Lease).Round(100*time.Millisecond))})
	case !again || m.replaces():
		if p, ok := m.pending[registering]; !ok || m.reached(p.at+retryAfter) {
			m.pending[registering] = retry{at: m.now}
			m.reached(m.now + retryAfter)
			m.do(register{})
		}
	}
}

// replaces reports whether the job continues after a host is lost.
func (m *machine) replaces() bool { return m.elastic || m.restarts > 0 }

// finish ends this launcher with a result, after its workers.
func (m *machine) finish(r *result) {
	if m.result == nil {
		m.result = r
	}
	if m.run != nil && !m.run.canceled {
		m.run.canceled = true
		m.do(cancel{"the job has ended"})
	}
	if m.run == nil {
		m.leave()
	}
}

// leave ends the registration, and with it this launcher. One that serves the store waits for the others.
func (m *machine) leave() {
	if !m.left {
		m.left = true
		m.do(leave{})
		m.since("left")
	}
	if m.serves && m.synced && len(m.hosts) > 0 && !m.reached(m.since("left")+m.Close) {
		return
	}
	if m.serves && m.most > 1 && !m.reached(m.since("empty")+settle) { // the others see the last changes too
		return
	}
	m.finished = true
	m.do(finish{m.result})
}
