package tcp

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"trireme/collective"
	"trireme/internal/secureconn"
	"trireme/tensor"
)

type transport struct {
	rank, size int
	timeout    time.Duration
	conf       secureconn.Config
	acceptor   *acceptor
	addrs      []string
	failure    *collective.FailureOnce
	peers      []*peer // by rank; nil for the caller

	stop chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex
	conns  map[*secureconn.Conn]bool // open connections
	closed bool
}

var _ collective.Transport = (*transport)(nil)

type peer struct {
	rank   int
	conn   *secureconn.Conn
	mu     sync.Mutex // serializes writes
	closed atomic.Bool
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
	tune(c.NetConn().(*net.TCPConn))
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
			t.wg.Add(1)
			go t.readControl(p)
		}
	}
	t.wg.Add(1)
	go func() {
		defer t.wg.Done()
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
	}()
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

func (t *transport) Arena() *tensor.Arena             { return nil }
func (t *transport) Failure() *collective.FailureOnce { return t.failure }
func (t *transport) Closed(rank int) bool             { return t.peers[rank] != nil && t.peers[rank].closed.Load() }

func (t *transport) Describe(rank int) string {
	if p := t.peers[rank]; p != nil {
		return fmt.Sprintf("rank %d (%v)", rank, p.conn.RemoteAddr())
	}
	return fmt.Sprintf("rank %d", rank)
}

func (t *transport) Join(id int, name string, ranks []int, me int) (collective.Memory, collective.Messages, error) {
	f := fnv.New64a()
	fmt.Fprint(f, name, ranks)
	ctx, cancel := context.WithTimeoutCause(context.Background(), t.timeout, fmt.Errorf("%w: no connection within %v", collective.ErrTimeout, t.timeout))
	defer cancel()
	go func() { // a failing world forms no group
		select {
		case <-t.failure.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	p := &messages{t: t, conns: make([][2]*secureconn.Conn, len(ranks))}
	for conn := range 2 {
		conns, err := t.mesh(ctx, ranks, me, uint32(id), uint32(conn), f.Sum64())
		if fail := t.failure.Get(); err != nil && fail != nil {
			return nil, nil, fail
		}
		if err != nil {
			return nil, nil, err
		}
		for i, c := range conns {
			p.conns[i][conn] = c
		}
	}
	return nil, p, nil
}

// Close sends msgBye, so that peers can distinguish it from a crash.
func (t *transport) Close() error {
	for _, p := range t.peers {
		if p != nil {
			_ = p.write(msgBye, nil) // the peer may be gone
		}
	}
	close(t.stop)
	err := errors.Join(t.acceptor.close(), t.closeAll())
	t.wg.Wait()
	return err
}
