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
	"trireme/tensor"
)

// transport is one rank's part in a world over TCP.
type transport struct {
	rank, size int
	timeout    time.Duration
	key        []byte
	acceptor   *acceptor
	addrs      []string
	fault      *collective.FailureOnce
	peers      []*peer // by rank; nil for the caller

	stop chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex
	note   collective.LastOp
	conns  map[*net.TCPConn]bool // all that are open
	closed bool
}

var _ collective.Transport = (*transport)(nil)

// peer is another rank and the connection for control.
type peer struct {
	rank    int
	conn    *net.TCPConn
	mu      sync.Mutex // of writing
	gone    atomic.Bool
	answers chan string
}

// keep counts a connection; it is refused, and closed, when the transport is.
func (t *transport) keep(c *net.TCPConn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		c.Close()
		return false
	}
	t.conns[c] = true
	tune(c)
	return true
}

// drop closes all connections.
func (t *transport) drop() error {
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

// begin starts what reads control, and what ends reads and writes when the world fails.
func (t *transport) begin() {
	for _, p := range t.peers {
		if p != nil {
			t.wg.Add(1)
			go t.listen(p)
		}
	}
	t.wg.Add(1)
	go func() {
		defer t.wg.Done()
		select {
		case <-t.fault.Done():
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

// past is a deadline that has gone by.
var past = time.Unix(1, 0)

func (t *transport) forControl(c *net.TCPConn) bool {
	for _, p := range t.peers {
		if p != nil && p.conn == c {
			return true
		}
	}
	return false
}

func (t *transport) Arena() *tensor.Arena             { return nil }
func (t *transport) Failure() *collective.FailureOnce { return t.fault }
func (t *transport) Closed(rank int) bool             { return t.peers[rank] != nil && t.peers[rank].gone.Load() }

func (t *transport) SetLastOp(n *collective.LastOp) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.note = *n
}

func (t *transport) doing() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.note.String()
}

func (t *transport) Join(id int, name string, ranks []int, me int) (collective.Memory, collective.Messages, error) {
	f := fnv.New64a()
	fmt.Fprint(f, name, ranks)
	ctx, cancel := context.WithTimeoutCause(context.Background(), t.timeout, fmt.Errorf("%w: no connection within %v", collective.ErrTimeout, t.timeout))
	defer cancel()
	go func() { // a world that fails forms no group
		select {
		case <-t.fault.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	p := &messages{t: t, lines: make([][2]*net.TCPConn, len(ranks))}
	for line := range 2 {
		conns, err := t.mesh(ctx, ranks, me, uint32(id), uint32(line), f.Sum64())
		if fail := t.fault.Get(); err != nil && fail != nil {
			return nil, nil, fail
		}
		if err != nil {
			return nil, nil, err
		}
		for i, c := range conns {
			p.lines[i][line] = c
		}
	}
	return nil, p, nil
}

// Close says goodbye, so that the others know this end from a crash.
func (t *transport) Close() error {
	for _, p := range t.peers {
		if p != nil {
			_ = p.write(msgBye, nil) // it may be gone itself
		}
	}
	close(t.stop)
	err := errors.Join(t.acceptor.close(), t.drop())
	t.wg.Wait()
	return err
}
