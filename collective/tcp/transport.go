package tcp

import (
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"trireme/collective"
	"trireme/internal/secureconn"
	"trireme/tensor"
)

type transport struct {
	rank        int
	timeout     time.Duration
	connections int // stripes
	inbox       *inbox
	addrs       []address // by rank
	failure     *collective.FailureOnce
	peers       []*peer              // by rank; nil for the caller
	local       collective.Transport // to the ranks of this host; nil: none

	stop chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex
	conns  map[*secureconn.Conn]bool // open connections
	groups map[uint32]*messages      // by id
	closed bool
}

var _ collective.Transport = (*transport)(nil)

type peer struct {
	rank   int
	conn   *secureconn.Conn
	mu     sync.Mutex // serializes writes
	closed atomic.Bool

	asked   sync.Mutex
	next    uint32 // number of a question
	answers map[uint32]chan bool
}

// add registers a connection. If the transport is closed, it closes c and returns false.
func (t *transport) add(c *secureconn.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		c.Close()
		return false
	}
	t.conns[c] = true
	tune(c.NetConn())
	return true
}

func (t *transport) closeAll() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	var errs []error
	for c := range t.conns {
		errs = append(errs, c.Close())
	}
	t.conns = nil
	return errors.Join(errs...)
}

// start starts the goroutines that read control messages and that end reads and writes when the world
// fails.
func (t *transport) start() {
	for _, p := range t.peers {
		if p != nil {
			t.wg.Go(func() { t.readControl(p) })
		}
	}
	t.wg.Go(func() {
		select {
		case <-t.failure.Done():
		case <-t.stop:
			return
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		for c := range t.conns {
			if !t.forControl(c) {
				_ = c.SetDeadline(past)
			}
		}
	})
}

var past = time.Unix(1, 0)

func (t *transport) forControl(c *secureconn.Conn) bool {
	for _, p := range t.peers {
		if p != nil && p.conn == c {
			return true
		}
	}
	return false
}

func (t *transport) Arena() *tensor.Arena {
	if t.local == nil {
		return nil
	}
	return t.local.Arena()
}

func (t *transport) Failure() *collective.FailureOnce { return t.failure }
func (t *transport) Closed(rank int) bool             { return t.peers[rank] != nil && t.peers[rank].closed.Load() }

func (t *transport) Describe(rank int) string {
	if p := t.peers[rank]; p != nil {
		return fmt.Sprintf("rank %d (%v on %s)", rank, p.conn.RemoteAddr(), t.addrs[rank].name)
	}
	return fmt.Sprintf("rank %d", rank)
}

// fail records a failure that this rank has detected, and sends it.
func (t *transport) fail(f *collective.Failure) {
	if t.failure.Set(f) {
		t.SendFailure(f)
	}
}

func (t *transport) Join(id int, name string, ranks []int, me int) (collective.Links, error) {
	hosts, local := t.hosts(ranks, me)
	var l collective.Links
	if len(local) > 1 {
		var here []int
		for _, i := range local {
			here = append(here, ranks[i])
		}
		inner, err := t.local.Join(id, name, here, me-local[0])
		if err != nil || len(local) == len(ranks) {
			return inner, err
		}
		l.Memory = inner.Memory
	}
	l.Hosts = hosts
	f := fnv.New64a()
	fmt.Fprint(f, name, ranks)
	m := newMessages(t, uint32(id), f.Sum64(), ranks)
	t.mu.Lock()
	t.groups[uint32(id)] = m
	t.mu.Unlock()
	l.Messages = m
	return l, nil
}

// Close sends msgBye, so that peers can distinguish it from a crash.
func (t *transport) Close() error {
	for _, p := range t.peers {
		if p != nil {
			_ = p.write(msgBye, nil) // the peer may be gone
		}
	}
	close(t.stop)
	err := errors.Join(t.inbox.close(), t.closeAll())
	t.wg.Wait()
	if t.local != nil {
		err = errors.Join(err, t.local.Close())
	}
	return err
}
