package rendezvous

import (
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// beats is how many heartbeats a rank sends in the time after which its silence counts.
const beats = 10

// watchdog follows one peer. Time counts in ticks of the observer, so that one which had no processor
// itself, or was stopped, takes nobody for silent.
type watchdog struct {
	rank    int
	who     process
	every   time.Duration // of a tick
	silence time.Duration // that is a failure where the process cannot be looked at
	limit   time.Duration // that is a failure of a process that runs
	quiet   atomic.Int32  // ticks since its last byte
	still   int           // ticks in a row at which it was seen stopped
}

func newPulse(rank int, who process, cfg Config) *watchdog {
	return &watchdog{rank: rank, who: who, every: cfg.Heartbeat / beats, silence: cfg.Heartbeat, limit: max(cfg.Timeout, cfg.Heartbeat)}
}

// tick counts one, and returns what is wrong with the peer or nil. A process of this machine that
// is silent is looked at: one that is starved by others is late, not lost.
func (p *watchdog) tick() *Failure {
	silent := time.Duration(p.quiet.Add(1)) * p.every
	if silent < p.silence/2 {
		p.still = 0
		return nil
	}
	c, signal := unseen, 0
	if p.who.here() {
		c, signal = look(p.who.pid)
	}
	limit := p.silence
	switch c {
	case stopped:
		if p.still++; p.still < 2 {
			return nil
		}
		return &Failure{Kind: ErrLost, Rank: p.rank, Text: p.who.name(p.rank) + " " + stoppedBy(signal)}
	case runs:
		limit = p.limit
	}
	p.still = 0
	if silent < limit {
		return nil
	}
	return &Failure{Kind: ErrLost, Rank: p.rank, Text: fmt.Sprintf("%s does not answer for %.1f s", p.who.name(p.rank), silent.Seconds())}
}

// watchedConn is a connection on which every byte is a sign of life.
type watchedConn struct {
	net.Conn
	p *watchdog
}

func (h watchedConn) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	if n > 0 {
		h.p.quiet.Store(0)
	}
	return n, err
}
