package secureconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Listener accepts connections of this job. Methods are safe for concurrent use.
type Listener struct {
	l     net.Listener
	cfg   Config
	admit func(hello []byte, from net.Addr) error
	ready chan *Conn
	stop  chan struct{} // closed by Close
	wg    sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	pending pending
}

// Listen listens on addr, which must name one interface. admit, which may be nil, is called in the handshake with
// the hello of an authenticated dialer, from any goroutine; its error is the text of the dialer's *Refused.
func Listen(ctx context.Context, addr string, cfg Config, admit func(hello []byte, from net.Addr) error) (*Listener, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if everyInterface(addr) {
		return nil, fmt.Errorf("secureconn: %s is every interface. try: the address of one that the other hosts can reach", addr)
	}
	lc := net.ListenConfig{KeepAlive: -1} // set after the handshake: strangers cost little
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &Listener{l: l, cfg: cfg, admit: admit, ready: make(chan *Conn), stop: make(chan struct{}), pending: newPending()}
	s.wg.Go(s.accept)
	return s, nil
}

// Addr returns the address it listens on.
func (s *Listener) Addr() net.Addr { return s.l.Addr() }

// Accept waits for an authenticated connection. After Close its error is net.ErrClosed.
func (s *Listener) Accept() (*Conn, error) {
	select {
	case c := <-s.ready:
		return c, nil
	case <-s.stop:
		return nil, net.ErrClosed
	}
}

// Close stops listening and closes the connections that Accept has not returned.
func (s *Listener) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.stop)
	s.pending.closeAll()
	s.mu.Unlock()
	err := s.l.Close()
	s.wg.Wait()
	return err
}

func (s *Listener) accept() {
	for {
		c, err := s.l.Accept()
		if err != nil {
			select {
			case <-s.stop:
				return
			case <-time.After(10 * time.Millisecond): // possibly out of descriptors
			}
			continue
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			reset(c)
			return
		}
		s.pending.add(c)
		s.wg.Go(func() { s.serve(c) })
		s.mu.Unlock()
	}
}

// serve runs a handshake and passes the connection to Accept.
func (s *Listener) serve(raw net.Conn) {
	c, err := accept(raw, &s.cfg, func(hello []byte) error {
		if s.admit == nil {
			return nil
		}
		return s.admit(hello, raw.RemoteAddr())
	})
	s.mu.Lock()
	s.pending.remove(raw)
	s.mu.Unlock()
	if err != nil {
		var r *Refused
		if errors.As(err, &r) {
			raw.Close() // the text must arrive
		} else {
			reset(raw)
		}
		return
	}
	keepAlives(raw)
	select {
	case s.ready <- c:
	case <-s.stop:
		raw.Close()
	}
}
