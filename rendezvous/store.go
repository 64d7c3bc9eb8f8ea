package rendezvous

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// Store is one rank's client of the key-value service. Methods are safe for concurrent use. A call that
// blocks fails when ctx is done, a rank is lost or, except Await, Config.Timeout has passed. Errors caused by
// other ranks are a *Failure.
type Store struct {
	env      Env
	addr     string
	ch       *channel
	server   *server // at rank 0, else nil
	cfg      Config
	watchdog *watchdog // watches rank 0
	done     chan struct{}
	wg       sync.WaitGroup // readers and heartbeats
	stop     chan struct{}  // closed by Close

	write sync.Mutex // held while sending
	sent  int        // heartbeats

	mu      sync.Mutex
	err     error
	closing bool // Close was called
	closed  bool
	over    bool // rank 0 has closed its store
	next    uint32
	calls   map[uint32]chan message

	recorded map[string]recorded // by key of AllGather and Await
}

func newStore(env Env, ch *channel, srv *server, cfg Config) *Store {
	s := &Store{env: env, ch: ch, server: srv, cfg: cfg, addr: ch.RemoteAddr().String(), watchdog: newWatchdog(0, ch.peer, cfg),
		done: make(chan struct{}), stop: make(chan struct{}), calls: map[uint32]chan message{}, recorded: map[string]recorded{}}
	ch.watch(s.watchdog)
	s.wg.Go(s.read)
	s.wg.Go(func() { s.every(s.heartbeat) })
	s.wg.Go(func() { s.every(s.checkRankZero) })
	return s
}

// every calls f at each heartbeat until the store ends or f returns false.
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

// heartbeat sends a heartbeat, with this rank's state every few times. It may block, unlike checkRankZero.
func (s *Store) heartbeat() bool {
	m := message{op: opHeartbeat}
	s.cfg.Recorder.Beat()
	if s.sent++; s.sent%max(2, s.env.WorldSize/64) == 0 {
		m.value = s.cfg.Recorder.Snapshot(stateOps)
	}
	return s.send(m) == nil
}

func (s *Store) checkRankZero() bool {
	if f := s.watchdog.tick(); f != nil {
		s.fail(f)
		return false
	}
	return true
}

// send writes a message. It blocks while rank 0 does not read, until that is lost.
func (s *Store) send(m message) error {
	s.write.Lock()
	defer s.write.Unlock()
	err := s.ch.send(m.encode())
	if err != nil {
		s.fail(s.lostFailure())
	}
	return err
}

func (s *Store) lostFailure() *Failure {
	return &Failure{Kind: ErrLost, Rank: 0, Text: s.ch.peer.name(0) + " is lost: its connection closed"}
}

// Rank returns this process's rank.
func (s *Store) Rank() int { return s.env.Rank }

// Size returns the world size.
func (s *Store) Size() int { return s.env.WorldSize }

// Addr returns the store's address, host:port.
func (s *Store) Addr() string { return s.addr }

// Done is closed when a rank is lost or calls Abort, or at Close.
func (s *Store) Done() <-chan struct{} { return s.done }

// Err returns the failure that closed Done; nil before that, and if Close closed it.
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
			s.fail(s.lostFailure())
			return
		}
		switch m.op {
		case opHeartbeat:
			continue
		case opLost:
			s.fail(decodeFailure(ErrLost, m.value))
			continue
		case opRefused:
			s.fail(decodeFailure(ErrRefused, m.value))
			continue
		case opNote:
			s.wg.Go(func() { s.cfg.Note(string(m.value)) }) // it may block; heartbeats are read here
			continue
		case opBye:
			s.rankZeroLeft()
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
	s.ch.Close() // unblocks sends: the other end may be stopped
}

// rankZeroLeft handles opBye: pending and later calls fail, but Done stays open.
func (s *Store) rankZeroLeft() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for id, c := range s.calls {
		delete(s.calls, id)
		c <- message{op: opFail, value: []byte("rank 0 has left")}
	}
}

// Abort ends the job on every rank: Done closes and waiting calls fail with cause. A cause with a root-cause
// rank (method Culprit) keeps it. code is this rank's exit code, or 0.
func (s *Store) Abort(cause error, code int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.call(ctx, opAbort, "", (&Failure{Rank: culpritOf(cause), Code: uint8(code), Text: cause.Error()}).encode())
}

// Key derives the key of this job and attempt for one purpose, known only to its ranks.
func (s *Store) Key(purpose string) ([]byte, error) { return s.env.Key(purpose) }

// Close leaves the store. Rank 0 waits for the others to leave, up to 3 seconds, unless a rank is lost. A
// rank that has failed calls Abort first. A second call does nothing.
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
		err = nil // closed by fail
	}
	s.wg.Wait()
	if s.server != nil {
		s.server.close(grace)
	}
	return err
}
