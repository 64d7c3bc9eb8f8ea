package cluster

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"trireme/launch"
)

// registering is the key of a new registration in pending.
const registering = "register"

// settle is the time that workers have to fail by themselves after a worker of another host has.
const settle = 150 * time.Millisecond

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
	case !again && !m.synced: // a host that joined before it sees the end of an earlier job would take that for its own
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
	cutOff := m.lostAt > 0 && !m.registered
	if m.serves && m.synced && !cutOff && len(m.hosts) > 0 && !m.reached(m.since("left")+m.Close) {
		return
	}
	if m.serves && m.most > 1 && !m.reached(m.since("empty")+settle) { // the others see the last changes too
		return
	}
	m.finished = true
	m.do(finish{m.result})
}
