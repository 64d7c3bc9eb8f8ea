package rendezvous

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
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
	pulse  *pulse // of rank 0
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
	ch.follow(s.pulse)
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

// call sends a request and waits for its answer.
func (s *Store) call(ctx context.Context, o op, key string, value []byte) ([]byte, error) {
	if len(key) > maxKey || len(value) > maxValue {
		return nil, fmt.Errorf("rendezvous: %q: a key of %d and a value of %d bytes, at most %d and %d", key[:min(len(key), 40)], len(key), len(value), maxKey, maxValue)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("rendezvous: %q: %w", key, err)
	}
	timeout := s.cfg.Timeout
	if d, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(time.Until(d), time.Millisecond))
	}
	answer := make(chan message, 1)
	s.mu.Lock()
	if s.closed || s.over || s.err != nil {
		defer s.mu.Unlock()
		switch {
		case s.err != nil:
			return nil, s.err
		case s.over:
			return nil, fmt.Errorf("rendezvous: %q: rank 0 has left", key)
		}
		return nil, fmt.Errorf("rendezvous: %q: %w", key, os.ErrClosed)
	}
	s.next++
	id := s.next
	s.calls[id] = answer
	// Sending may block where rank 0 is stopped, and must not hold up the end of ctx.
	s.wg.Go(func() {
		s.send(message{id: id, op: o, timeout: timeout, key: key, value: value}) // an error is in s.err
	})
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.calls, id)
		s.mu.Unlock()
	}()

	// The store keeps the time and knows who is missing; the limit here is for a store that runs
	// and does not answer.
	limit := time.NewTimer(timeout + 2*time.Second)
	defer limit.Stop()
	if o == opAwait {
		limit.Stop()
	}
	cancelled := ctx.Done()
	for {
		select {
		case m := <-answer:
			switch m.op {
			case opOK:
				return m.value, nil
			case opLate:
				return nil, decodeFailure(ErrLate, m.value)
			case opLost:
				return nil, decodeFailure(ErrLost, m.value)
			}
			return nil, fmt.Errorf("rendezvous: %s", m.value)
		case <-s.done:
			select {
			case m := <-answer: // it was answered first
				if m.op == opOK {
					return m.value, nil
				}
			default:
			}
			if err := s.Err(); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("rendezvous: %q: %w", key, os.ErrClosed)
		case <-cancelled:
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				cancelled = nil // the store's answer, which names the missing, is on its way
				limit.Reset(250 * time.Millisecond)
				continue
			}
			return nil, fmt.Errorf("rendezvous: %q: %w", key, ctx.Err())
		case <-limit.C:
			return nil, &Failure{Kind: ErrLate, Rank: 0, Text: fmt.Sprintf("rendezvous: %q: the store at %s (rank 0) does not answer within %v", key, s.addr, timeout.Round(time.Millisecond))}
		}
	}
}

// Set stores value under key and wakes those who Get it.
func (s *Store) Set(ctx context.Context, key string, value []byte) error {
	_, err := s.call(ctx, opSet, key, value)
	return err
}

// Get returns key's value and waits until there is one.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	return s.call(ctx, opGet, key, nil)
}

// Add adds delta to the number under key, 0 at first, and returns the sum. Get reads it as
// decimal digits.
func (s *Store) Add(ctx context.Context, key string, delta int64) (int64, error) {
	b, err := s.call(ctx, opAdd, key, binary.BigEndian.AppendUint64(nil, uint64(delta)))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(b), 10, 64)
}

// AllGather gives every rank's value to every rank, in the order of ranks, when all have
// called it with this key. A key may be used again once its gathering has ended. The sum of
// the values may be 16 MiB.
func (s *Store) AllGather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	return s.gather(s.call(ctx, opGather, key, mine))
}

// Await is AllGather, but waits for a rank that has joined as long as that lives. It ends what ranks
// do alone, however long that takes.
func (s *Store) Await(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	return s.gather(s.call(ctx, opAwait, key, mine))
}

// gather reads the answer to opGather.
func (s *Store) gather(b []byte, err error) ([][]byte, error) {
	if err != nil {
		return nil, err
	}
	vs, err := decodeList(b)
	if err == nil && len(vs) != s.Size() {
		err = fmt.Errorf("rendezvous: %d values were gathered in a world of %d", len(vs), s.Size())
	}
	return vs, err
}

// Barrier returns when every rank has called it with this key.
func (s *Store) Barrier(ctx context.Context, key string) error {
	_, err := s.AllGather(ctx, key, nil)
	return err
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
