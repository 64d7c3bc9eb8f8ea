package rendezvous

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// Store is one rank's view of the key-value service. All methods may be called from any
// goroutine. What blocks ends at ctx's end or, but for Await, after Config.Timeout, whichever is
// first, and at once when a rank is lost. Errors that other ranks are to blame for are a *Failure.
type Store struct {
	env    Env
	addr   string
	ch     *channel
	server *server // at rank 0
	cfg    Config
	pulse  *watchdog // of rank 0
	done   chan struct{}
	wg     sync.WaitGroup // reading, and sending beats
	stop   chan struct{}  // closed by Close

	write sync.Mutex // held while sending

	mu      sync.Mutex
	err     error
	closing bool // Close was called
	closed  bool
	over    bool // rank 0 has left in good order
	next    uint32
	calls   map[uint32]chan message
}

func newStore(env Env, ch *channel, srv *server, cfg Config) *Store {
	s := &Store{env: env, ch: ch, server: srv, cfg: cfg, addr: ch.RemoteAddr().String(), pulse: newPulse(0, ch.peer, cfg),
		done: make(chan struct{}), stop: make(chan struct{}), calls: map[uint32]chan message{}}
	ch.watch(s.pulse)
	s.wg.Go(s.read)
	s.wg.Go(func() { s.every(s.beat) })
	s.wg.Go(func() { s.every(s.look) })
	return s
}

// every calls f at each beat until the store ends or f says no.
func (s *Store) every(f func() bool) {
	t := time.NewTicker(s.cfg.Heartbeat / beats)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.done:
			return
		case <-t.C:
			if !f() {
				return
			}
		}
	}
}

// beat sends a sign of life. It may block, where look must not.
func (s *Store) beat() bool {
	return s.send(message{op: opBeat}) == nil
}

// look watches rank 0.
func (s *Store) look() bool {
	if f := s.pulse.tick(); f != nil {
		s.fail(f)
		return false
	}
	return true
}

// send blocks while rank 0 reads nothing, until it is lost.
func (s *Store) send(m message) error {
	s.write.Lock()
	defer s.write.Unlock()
	err := s.ch.send(m.encode())
	if err != nil {
		s.fail(s.gone())
	}
	return err
}

// gone is the failure of a store whose connection is closed.
func (s *Store) gone() *Failure {
	return &Failure{Kind: ErrLost, Rank: 0, Text: s.ch.peer.name(0) + " is lost: its connection closed"}
}

// Rank is this process's number.
func (s *Store) Rank() int { return s.env.Rank }

// Size is the number of ranks.
func (s *Store) Size() int { return s.env.WorldSize }

// Addr is where the store is, host:port.
func (s *Store) Addr() string { return s.addr }

// Done is closed when a rank is lost, when one has called Abort, or at Close.
func (s *Store) Done() <-chan struct{} { return s.done }

// Err says why Done is closed; nil before that and after an orderly Close.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *Store) read() {
	for {
		b, err := s.ch.receive()
		var m message
		if err == nil {
			m, err = decodeMessage(b)
		}
		if err != nil {
			s.fail(s.gone())
			return
		}
		switch m.op {
		case opBeat:
			continue
		case opLost:
			s.fail(decodeFailure(ErrLost, m.value))
			continue
		case opRefused:
			s.fail(decodeFailure(ErrRefused, m.value))
			continue
		case opNote:
			s.wg.Go(func() { s.cfg.Note(string(m.value)) }) // it may block, and beats are read here
			continue
		case opBye:
			s.end()
			continue
		}
		s.mu.Lock()
		if c := s.calls[m.id]; c != nil {
			delete(s.calls, m.id)
			c <- m
		}
		s.mu.Unlock()
	}
}

func (s *Store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.over || s.err != nil {
		return
	}
	s.err = err
	close(s.done)
	s.ch.Close() // ends what blocks in it: the other end may be stopped
}

// end is told when rank 0 closes the store. That breaks nothing: only calls fail.
func (s *Store) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for id, c := range s.calls {
		delete(s.calls, id)
		c <- message{op: opFail, value: []byte("rank 0 has left")}
	}
}

// Abort tells every rank that the job is over, and why: their Done closes, and whatever
// they wait for fails. A cause that blames a rank (method Culprit) blames it there too. code is that
// with which this rank will exit, or 0.
func (s *Store) Abort(cause error, code int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.call(ctx, opAbort, "", (&Failure{Rank: blame(cause), Code: uint8(code), Text: cause.Error()}).encode())
}

// Key is the key of this attempt of this job for one purpose, which only its ranks have.
func (s *Store) Key(purpose string) ([]byte, error) { return s.env.Key(purpose) }

// Close says goodbye. Rank 0 first waits, up to 3 seconds, until the others have left; when
// a rank is lost it doesn't. A rank that has failed calls Abort before. A second call does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return nil
	}
	s.closing = true
	broken := s.err != nil || s.over
	s.mu.Unlock()
	grace := 100 * time.Millisecond
	if !broken {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		s.call(ctx, opBye, "", nil)
		cancel()
		grace = 3 * time.Second
	}
	s.mu.Lock()
	s.closed = true
	if s.err == nil {
		close(s.done)
	}
	s.mu.Unlock()
	close(s.stop)
	err := s.ch.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil // fail has closed it
	}
	s.wg.Wait()
	if s.server != nil {
		s.server.close(grace)
	}
	return err
}
