package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"trireme/internal/secureconn"
)

// acceptor accepts connections of this job and keeps them until take.
type acceptor struct {
	l  *secureconn.Listener
	wg sync.WaitGroup

	mu     sync.Mutex
	closed bool
	ready  map[connID]chan *secureconn.Conn
}

type connID struct {
	from, group, conn uint32
	key               uint64
}

func newAcceptor(ctx context.Context, host string, rank, size int, cfg secureconn.Config) (*acceptor, error) {
	l, err := secureconn.Listen(ctx, net.JoinHostPort(host, "0"), cfg, func(b []byte, _ net.Addr) error {
		h, err := decodeHello(b)
		if err == nil && (int(h.to) != rank || int(h.size) != size) {
			err = fmt.Errorf("this is rank %d of %d, not rank %d of %d", rank, size, h.to, h.size)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	d := &acceptor{l: l, ready: map[connID]chan *secureconn.Conn{}}
	d.wg.Go(d.accept)
	return d, nil
}

func (d *acceptor) accept() {
	for {
		c, err := d.l.Accept()
		if err != nil {
			return
		}
		h, err := decodeHello(c.Hello())
		d.mu.Lock()
		if err != nil || d.closed {
			c.Close()
		} else {
			select {
			case d.at(connID{h.from, h.group, h.conn, h.key}) <- c:
			default:
				c.Close() // a duplicate
			}
		}
		d.mu.Unlock()
	}
}

// at returns the channel of a connection. mu is held.
func (d *acceptor) at(p connID) chan *secureconn.Conn {
	ch := d.ready[p]
	if ch == nil {
		ch = make(chan *secureconn.Conn, 1)
		d.ready[p] = ch
	}
	return ch
}

func (d *acceptor) take(ctx context.Context, p connID) (*secureconn.Conn, error) {
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

// dial connects to another rank's acceptor. It retries until ctx is done or the acceptor refuses the rank.
func dial(ctx context.Context, addr string, cfg secureconn.Config, h hello) (*secureconn.Conn, error) {
	for {
		c, err := secureconn.Dial(ctx, addr, cfg, h.encode())
		if err == nil {
			return c, nil
		}
		var r *secureconn.Refused
		if errors.As(err, &r) {
			return nil, fmt.Errorf("refused: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (last error: %v)", context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
