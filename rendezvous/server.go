package rendezvous

import (
	"fmt"
	"sync"
	"time"

	"trireme/flight"
	"trireme/internal/secureconn"
)

// server is the store's server, at rank 0. Each connection has a goroutine that reads requests and one that
// writes answers, so a rank that stops reading blocks only itself.
type server struct {
	world  int
	cfg    Config
	began  time.Time
	listen *secureconn.Listener
	wg     sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	open    map[*secureconn.Conn]bool
	ranks   map[int]*peer
	left    map[int]bool // sent opBye
	lost    *Failure     // the world's failure, or nil
	values  map[string][]byte
	gathers map[string]*gathering
	waits   map[*wait]bool
	states  []flight.Rank // by rank
	noted   noted         // notes about late ranks
	empty   chan struct{} // closed when all joined ranks have left
	stop    chan struct{} // closed by close
}

type peer struct {
	rank     int
	out      chan []byte
	watchdog *watchdog
}

func newServer(l *secureconn.Listener, world int, cfg Config) *server {
	s := &server{
		world: world, cfg: cfg, began: time.Now(), listen: l,
		open: map[*secureconn.Conn]bool{}, ranks: map[int]*peer{}, left: map[int]bool{},
		values: map[string][]byte{}, gathers: map[string]*gathering{}, waits: map[*wait]bool{}, states: make([]flight.Rank, world),
		empty: make(chan struct{}), stop: make(chan struct{}),
	}
	s.wg.Go(s.accept)
	s.wg.Go(s.heartbeats)
	return s
}

func (s *server) accept() {
	for {
		c, err := s.listen.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			c.Close()
			return
		}
		s.open[c] = true
		s.wg.Go(func() { s.serve(c) })
		s.mu.Unlock()
	}
}

func (s *server) serve(c *secureconn.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.open, c)
		s.mu.Unlock()
	}()
	h, err := decodeHello(c.Hello())
	if err != nil {
		return
	}
	ch, err := newChannel(c, thisProcess())
	if err != nil {
		return
	}
	p := &peer{rank: h.rank, out: make(chan []byte, 1024), watchdog: newWatchdog(h.rank, ch.peer, s.cfg)}
	ch.watch(p.watchdog)
	if o, why := s.admit(p, h); why != nil {
		ch.SetDeadline(time.Now().Add(handshakeTime))
		ch.send(message{op: o, value: why.encode()}.encode())
		return
	}
	writing := make(chan struct{})
	go func() {
		defer close(writing)
		for b := range p.out {
			ch.SetWriteDeadline(time.Now().Add(30 * time.Second))
			if ch.send(b) != nil {
				c.Close() // ends the reader too
			}
		}
	}()
	why := "its connection closed"
	for {
		b, err := ch.receive()
		if err != nil {
			break
		}
		m, err := decodeMessage(b)
		if err != nil {
			why = err.Error()
			break
		}
		s.handle(p, m)
	}
	s.remove(p, why)
	<-writing
}

// admit registers a rank, or returns the failure and its op.
func (s *server) admit(p *peer, h hello) (op, *Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := func(format string, args ...any) (op, *Failure) {
		return opRefused, &Failure{Kind: ErrRefused, Rank: -1, Text: fmt.Sprintf("rendezvous: "+format, args...)}
	}
	switch {
	case h.world != s.world:
		return refused("rank %d has WORLD_SIZE=%d, rank 0 has %d", h.rank, h.world, s.world)
	case h.rank < 0 || h.rank >= s.world:
		return refused("rank %d is not below the world size %d", h.rank, s.world)
	case s.lost != nil:
		return opLost, s.lost
	case s.ranks[h.rank] != nil || s.left[h.rank]:
		return refused("rank %d joined twice", h.rank)
	}
	s.ranks[h.rank] = p
	return 0, nil
}

// remove unregisters a rank. If it has not sent opBye, it is lost and the world fails.
func (s *server) remove(p *peer, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ranks[p.rank] == p {
		delete(s.ranks, p.rank)
	}
	for w := range s.waits {
		if w.peer == p {
			s.drop(w)
		}
	}
	close(p.out)
	if !s.left[p.rank] {
		s.left[p.rank] = true
		s.lose(p, &Failure{Kind: ErrLost, Rank: p.rank, Text: fmt.Sprintf("%s is lost: %s", p.watchdog.process.name(p.rank), why)})
	}
	if len(s.ranks) == 0 {
		select {
		case <-s.empty:
		default:
			close(s.empty)
		}
	}
}

// fail fails all waiting requests and sends why to every rank, once.
func (s *server) fail(why *Failure) {
	if s.lost != nil || s.closed {
		return
	}
	s.lost = why
	for w := range s.waits {
		s.drop(w)
	}
	for _, p := range s.ranks {
		p.send(message{op: opLost, value: why.encode()}) // fails its waiting calls
	}
}

func (p *peer) send(m message) {
	select {
	case p.out <- m.encode():
	default: // 1024 unread answers: the write deadline ends the connection
	}
}

func (s *server) answer(w *wait, o op, value []byte) {
	s.drop(w)
	w.peer.send(message{id: w.id, op: o, value: value})
}

func (s *server) drop(w *wait) {
	delete(s.waits, w)
	if w.timer != nil {
		w.timer.Stop()
	}
}

// close ends the server when all ranks have left, or after grace.
func (s *server) close(grace time.Duration) {
	select {
	case <-s.empty:
	case <-time.After(grace):
	}
	s.mu.Lock()
	if !s.closed {
		close(s.stop)
	}
	s.closed = true
	for w := range s.waits {
		s.drop(w)
	}
	for _, p := range s.ranks {
		p.send(message{op: opBye})
	}
	open := len(s.open)
	s.mu.Unlock()
	s.listen.Close()
	if open > 0 {
		time.Sleep(10 * time.Millisecond) // let opBye be written
	}
	s.mu.Lock()
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}
