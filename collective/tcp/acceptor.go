package tcp

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// maxGreeting bounds the connections that have not shown the secret yet.
const maxGreeting = 64

// acceptor accepts connections and keeps them until somebody asks for them.
type acceptor struct {
	rank, size int
	key        []byte
	l          net.Listener
	wg         sync.WaitGroup
	guests     chan struct{}

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]bool // in the handshake
	ready  map[connID]chan net.Conn
}

// connID is where a connection belongs.
type connID struct {
	from, group, line uint32
	key               uint64
}

func newAcceptor(host string, rank, size int, key []byte) (*acceptor, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	d := &acceptor{rank: rank, size: size, key: key, l: l, guests: make(chan struct{}, maxGreeting), open: map[net.Conn]bool{}, ready: map[connID]chan net.Conn{}}
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
			time.Sleep(10 * time.Millisecond) // out of descriptors, perhaps for a moment
			continue
		}
		select {
		case d.guests <- struct{}{}:
		default:
			c.Close() // a dialler of ours tries again
			continue
		}
		d.wg.Add(1)
		go func() {
			defer d.wg.Done()
			defer func() { <-d.guests }()
			d.greet(c)
		}()
	}
}

// greet keeps a connection that belongs here and closes any other.
func (d *acceptor) greet(c net.Conn) {
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
	case d.at(connID{h.from, h.group, h.line, h.key}) <- c:
	default:
		c.Close() // a second one for the same place
	}
}

// at is called with the lock held.
func (d *acceptor) at(p connID) chan net.Conn {
	ch := d.ready[p]
	if ch == nil {
		ch = make(chan net.Conn, 1)
		d.ready[p] = ch
	}
	return ch
}

// take waits for a connection.
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

// dial connects to another rank's door, and tries again while it is full or not there yet.
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
			return nil, fmt.Errorf("%w (last: %v)", context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
