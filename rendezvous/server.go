package rendezvous

import (
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
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
	pulse *pulse
}

// gather collects one value of every rank.
type gather struct {
	values [][]byte
	have   []bool
	count  int
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
	ch.follow(p.pulse)
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
		p.tell(message{op: opLost, value: why.encode()}) // which fails what it waits for
	}
}

func (p *peer) tell(m message) {
	select {
	case p.out <- m.encode():
	default: // it has not read a thousand answers: its connection's time limit will end it
	}
}

func (s *server) answer(w *wait, o op, value []byte) {
	s.drop(w)
	w.peer.tell(message{id: w.id, op: o, value: value})
}

func (s *server) drop(w *wait) {
	delete(s.waits, w)
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (s *server) handle(p *peer, m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := func(o op, value []byte) { p.tell(message{id: m.id, op: o, value: value}) }
	switch m.op {
	case opBeat:
	case opSet:
		s.put(m.key, m.value)
		reply(opOK, nil)
	case opAdd:
		sum, err := s.add(m.key, m.value)
		if err != nil {
			reply(opFail, []byte(err.Error()))
			return
		}
		reply(opOK, sum)
	case opGet:
		if v, ok := s.values[m.key]; ok {
			reply(opOK, v)
			return
		}
		s.wait(p, m)
	case opGather, opAwait:
		g := s.gathers[m.key]
		if g == nil {
			g = &gather{values: make([][]byte, s.world), have: make([]bool, s.world)}
			s.gathers[m.key] = g
		}
		if g.have[p.rank] {
			reply(opFail, fmt.Appendf(nil, "rank %d gathers %q twice at once", p.rank, m.key))
			return
		}
		g.values[p.rank], g.have[p.rank] = m.value, true
		g.count++
		s.wait(p, m)
		if g.count == s.world {
			s.finish(m.key, g)
		}
	case opAbort:
		f := decodeFailure(ErrLost, m.value)
		if f.Rank < 0 || f.Rank == p.rank { // its own failure, which it reports itself
			f.Rank, f.Text = -1, fmt.Sprintf("rank %d stopped: %s", p.rank, f.Text)
		}
		s.breakUp(f)
		reply(opOK, nil)
	case opBye:
		s.left[p.rank] = true
		for w := range s.waits {
			if w.gathers() && !s.gathers[w.key].have[p.rank] {
				s.answer(w, opLate, left(p.rank, w.key))
			}
		}
		reply(opOK, nil)
	default:
		reply(opFail, []byte("not a request"))
	}
}

func (s *server) put(key string, value []byte) {
	s.values[key] = value
	for w := range s.waits {
		if w.op == opGet && w.key == key {
			s.answer(w, opOK, value)
		}
	}
}

// add keeps decimal numbers, so that Get reads what Add wrote.
func (s *server) add(key string, delta []byte) ([]byte, error) {
	if len(delta) != 8 {
		return nil, fmt.Errorf("a delta of %d bytes", len(delta))
	}
	var n int64
	if v, ok := s.values[key]; ok {
		var err error
		if n, err = strconv.ParseInt(string(v), 10, 64); err != nil {
			return nil, fmt.Errorf("the value of %q is not a number", key)
		}
	}
	n += int64(binary.BigEndian.Uint64(delta))
	v := strconv.AppendInt(nil, n, 10)
	s.put(key, v)
	return v, nil
}

func (s *server) finish(key string, g *gather) {
	delete(s.gathers, key)
	list, size := encodeList(g.values), 0
	if size = len(list); size > maxValue {
		list = nil
	}
	for w := range s.waits {
		switch {
		case !w.gathers() || w.key != key:
		case list == nil:
			s.answer(w, opFail, fmt.Appendf(nil, "%q gathers %d bytes, more than %d", key, size, maxValue))
		default:
			s.answer(w, opOK, list)
		}
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
		p.tell(message{op: opBye})
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
