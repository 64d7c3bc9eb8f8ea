package rendezvous

import (
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// beats is the number of heartbeats per Config.Heartbeat.
const beats = 10

// watchdog watches one peer. It counts time in the observer's ticks, so that an observer that was starved
// or stopped does not declare the peer lost.
type watchdog struct {
	rank         int
	process      process
	every        time.Duration // tick interval
	silence      time.Duration // limit if the process cannot be inspected: all ranks then know within Config.Heartbeat
	limit        time.Duration // limit if the process runs
	silentTicks  atomic.Int32  // ticks since the last byte
	stoppedTicks int           // consecutive ticks at which the process was stopped
}

func newWatchdog(rank int, who process, cfg Config) *watchdog {
	return &watchdog{rank: rank, process: who, every: cfg.Heartbeat / beats, silence: cfg.Heartbeat * 8 / beats, limit: max(cfg.Timeout, cfg.Heartbeat)}
}

// tick counts a tick and returns the peer's failure, or nil. It inspects the process of a silent peer on
// this machine: a starved process is late, not lost.
func (p *watchdog) tick() *Failure {
	silent := time.Duration(p.silentTicks.Add(1)) * p.every
	if silent < p.every*beats/2 {
		p.stoppedTicks = 0
		return nil
	}
	c, signal := unknown, 0
	if p.process.here() {
		c, signal, _ = stateOf(p.process.pid)
	}
	limit, why := p.silence, "process stopped, or machine or network down"
	switch c {
	case stopped:
		if p.stoppedTicks++; p.stoppedTicks < 2 {
			return nil
		}
		return &Failure{Kind: ErrLost, Rank: p.rank, Text: p.process.name(p.rank) + " " + stoppedBy(signal)}
	case running:
		limit, why = p.limit, "process runs, but is blocked or overloaded"
	}
	p.stoppedTicks = 0
	if silent < limit {
		return nil
	}
	return &Failure{Kind: ErrLost, Rank: p.rank, Text: fmt.Sprintf("%s sent no heartbeat for %.1f s (%s)", p.process.name(p.rank), silent.Seconds(), why)}
}

type watchedConn struct {
	net.Conn
	p *watchdog
}

func (h watchedConn) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	if n > 0 {
		h.p.silentTicks.Store(0)
	}
	return n, err
}
