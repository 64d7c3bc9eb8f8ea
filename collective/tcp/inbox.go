package tcp

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"trireme/internal/secureconn"
)

// inbox accepts connections and keeps them until take.
type inbox struct {
	l    *secureconn.Listener
	conf secureconn.Config
	wg   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	ready  map[connID]chan *secureconn.Conn
}

type connID struct {
	from, group, stream uint32
	key                 uint64
}

func newInbox(ctx context.Context, address string, rank, size int, conf secureconn.Config) (*inbox, error) {
	d := &inbox{conf: conf, ready: map[connID]chan *secureconn.Conn{}}
	var err error
	d.l, err = secureconn.Listen(ctx, net.JoinHostPort(address, "0"), conf, func(b []byte, _ net.Addr) error {
		h, err := decodeHello(b)
		if err == nil && (int(h.to) != rank || int(h.size) != size) {
			err = fmt.Errorf("this is rank %d of %d, not %d of %d", rank, size, h.to, h.size)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	d.wg.Go(d.accept)
	return d, nil
}

func (d *inbox) accept() {
	for {
		c, err := d.l.Accept()
		if err != nil {
			return
		}
		h, err := decodeHello(c.Hello())
		d.mu.Lock()
		if err != nil || d.closed {
			c.Close()
			d.mu.Unlock()
			continue
		}
		select {
		case d.at(connID{h.from, h.group, h.stream, h.key}) <- c:
		default:
			c.Close() // a duplicate
		}
		d.mu.Unlock()
	}
}

// at returns the channel of a connection. mu is held.
func (d *inbox) at(p connID) chan *secureconn.Conn {
	ch := d.ready[p]
	if ch == nil {
		ch = make(chan *secureconn.Conn, 1)
		d.ready[p] = ch
	}
	return ch
}

func (d *inbox) take(ctx context.Context, p connID) (*secureconn.Conn, error) {
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

func (d *inbox) close() error {
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

// dial connects to another rank's inbox. It retries until ctx is done.
func (d *inbox) dial(ctx context.Context, addr string, h hello) (*secureconn.Conn, error) {
	for {
		c, err := secureconn.Dial(ctx, addr, d.conf, h.encode())
		if err == nil {
			return c, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (last error: %v)", context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
