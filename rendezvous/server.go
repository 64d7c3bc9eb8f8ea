package rendezvous

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// maxStrangers bounds connections that have not proved themselves yet.
const maxStrangers = 128

// server is the store's one copy, at rank 0. All state is under mu; every connection has a
// goroutine that reads requests and one that writes answers, so that a rank that stops
// reading holds up nobody but itself.
type server struct {
	world  int
	key    []byte
	cfg    Config
	began  time.Time
	listen net.Listener
	gate   chan struct{} // one place a stranger
	wg     sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	open    map[net.Conn]bool
	ranks   map[int]*peer
	left    map[int]bool // said goodbye
	lost    *Failure     // why the world is broken, or nil
	values  map[string][]byte
	gathers map[string]*gather
	waits   map[*wait]bool
	empty   chan struct{} // closed when every rank that came has gone
	stop    chan struct{} // closed at the end
}

type peer struct {
	rank  int
	out   chan []byte
	pulse *watchdog
}

func newServer(l net.Listener, world int, key []byte, cfg Config) *server {
	s := &server{
		world: world, key: key, cfg: cfg, began: time.Now(), listen: l, gate: make(chan struct{}, maxStrangers),
		open: map[net.Conn]bool{}, ranks: map[int]*peer{}, left: map[int]bool{},
		values: map[string][]byte{}, gathers: map[string]*gather{}, waits: map[*wait]bool{},
		empty: make(chan struct{}), stop: make(chan struct{}),
	}
	s.wg.Go(s.accept)
	s.wg.Go(s.beat)
	return s
}

func (s *server) accept() {
	for {
		c, err := s.listen.Accept()
		if err != nil {
			s.mu.Lock()
			closed := s.closed
			s.mu.Unlock()
			if closed {
				return
			}
			time.Sleep(10 * time.Millisecond) // out of descriptors, say: the next one may do
			continue
		}
		select {
		case s.gate <- struct{}{}:
		default:
			c.Close()
			continue
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

// serve is one connection from its first byte to its last.
func (s *server) serve(c net.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.open, c)
		s.mu.Unlock()
	}()
	ch, h, err := greetClient(c, s.key, thisProcess())
	<-s.gate
	if err != nil {
		return
	}
	p := &peer{rank: h.rank, out: make(chan []byte, 1024), pulse: newPulse(h.rank, ch.peer, s.cfg)}
	ch.watch(p.pulse)
	if o, why := s.enter(p, h); why != nil {
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
				c.Close() // ends the reading side too
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
	s.leave(p, why)
	<-writing
}

// enter takes a rank in, or says why not.
func (s *server) enter(p *peer, h hello) (op, *Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := func(format string, args ...any) (op, *Failure) {
		return opRefused, &Failure{Kind: ErrRefused, Rank: -1, Text: fmt.Sprintf("rendezvous: "+format, args...)}
	}
	switch {
	case h.world != s.world:
		return refused("rank %d has WORLD_SIZE=%d, rank 0 has %d", h.rank, h.world, s.world)
	case h.rank < 0 || h.rank >= s.world:
		return refused("there is no rank %d in a world of %d", h.rank, s.world)
	case s.lost != nil:
		return opLost, s.lost
	case s.ranks[h.rank] != nil || s.left[h.rank]:
		return refused("rank %d joined twice", h.rank)
	}
	s.ranks[h.rank] = p
	return 0, nil
}

// leave takes a rank out. One that has not said goodbye is lost, and with it whatever the
// others wait for.
func (s *server) leave(p *peer, why string) {
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
		s.breakUp(&Failure{Kind: ErrLost, Rank: p.rank, Text: fmt.Sprintf("%s is lost: %s", p.pulse.who.name(p.rank), why)})
	}
	if len(s.ranks) == 0 {
		select {
		case <-s.empty:
		default:
			close(s.empty)
		}
	}
}

// breakUp fails all that wait and tells every rank, once.
func (s *server) breakUp(why *Failure) {
	if s.lost != nil || s.closed {
		return
	}
	s.lost = why
	for w := range s.waits {
		s.drop(w)
	}
	for _, p := range s.ranks {
		p.send(message{op: opLost, value: why.encode()}) // which fails what it waits for
	}
}

func (p *peer) send(m message) {
	select {
	case p.out <- m.encode():
	default: // it has not read a thousand answers: its connection's time limit will end it
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

// close ends the service, after others have left or grace is over.
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
		time.Sleep(10 * time.Millisecond) // for the farewell to be written
	}
	s.mu.Lock()
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}
