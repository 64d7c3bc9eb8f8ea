package tcp

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// maxPending is the limit of connections that are not authenticated yet.
const maxPending = 64

// acceptor accepts connections and keeps them until take.
type acceptor struct {
	rank, size int
	key        []byte
	l          net.Listener
	wg         sync.WaitGroup
	pending    chan struct{}

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]bool // in the handshake
	ready  map[connID]chan net.Conn
}

type connID struct {
	from, group, conn uint32
	key               uint64
}

func newAcceptor(host string, rank, size int, key []byte) (*acceptor, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	d := &acceptor{rank: rank, size: size, key: key, l: l, pending: make(chan struct{}, maxPending), open: map[net.Conn]bool{}, ready: map[connID]chan net.Conn{}}
	d.wg.Add(1)
	go d.accept()
	return d, nil
}

func (d *acceptor) accept() {
	defer d.wg.Done()
	for {
		c, err := d.l.Accept()
		if err != nil {
			d.mu.Lock()
			closed := d.closed
			d.mu.Unlock()
			if closed {
				return
			}
			time.Sleep(10 * time.Millisecond) // possibly out of descriptors
			continue
		}
		select {
		case d.pending <- struct{}{}:
		default:
			c.Close() // a peer dials again
			continue
		}
		d.wg.Add(1)
		go func() {
			defer d.wg.Done()
			defer func() { <-d.pending }()
			d.handshake(c)
		}()
	}
}

// handshake keeps an authenticated connection for this rank and closes any other.
func (d *acceptor) handshake(c net.Conn) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		c.Close()
		return
	}
	d.open[c] = true
	d.mu.Unlock()
	h, err := acceptHandshake(c, d.key, func(h hello) error {
		if int(h.to) != d.rank || int(h.size) != d.size {
			return fmt.Errorf("for rank %d of %d", h.to, h.size)
		}
		return nil
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, c)
	if err != nil || d.closed {
		c.Close()
		return
	}
	select {
	case d.at(connID{h.from, h.group, h.conn, h.key}) <- c:
	default:
		c.Close() // a duplicate
	}
}

// at returns the channel of a connection. mu is held.
func (d *acceptor) at(p connID) chan net.Conn {
	ch := d.ready[p]
	if ch == nil {
		ch = make(chan net.Conn, 1)
		d.ready[p] = ch
	}
	return ch
}

func (d *acceptor) take(ctx context.Context, p connID) (net.Conn, error) {
	d.mu.Lock()
	ch := d.at(p)
	d.mu.Unlock()
	select {
	case c := <-ch:
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (d *acceptor) close() error {
	d.mu.Lock()
	d.closed = true
	for c := range d.open {
		c.Close()
	}
	for _, ch := range d.ready {
		select {
		case c := <-ch:
			c.Close()
		default:
		}
	}
	d.mu.Unlock()
	err := d.l.Close()
	d.wg.Wait()
	return err
}

// dial connects to another rank's acceptor. It retries until ctx is done.
func dial(ctx context.Context, addr string, key []byte, h hello) (net.Conn, error) {
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			stop := context.AfterFunc(ctx, func() { c.Close() })
			err = dialHandshake(c, key, h, time.Now().Add(handshakeTime))
			if stop() && err == nil {
				return c, nil
			}
			c.Close()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (last error: %v)", context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
