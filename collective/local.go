package collective

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"trireme/tensor"
)

// NewLocal makes a world of n ranks inside this process. Each must be used from a goroutine
// of its own, and closed.
func NewLocal(n int, cfg Config) ([]World, error) {
	h := &hub{boards: map[int]*board{}}
	ws := make([]World, n)
	for r := range ws {
		h.seats = append(h.seats, &seat{hub: h, rank: r, fault: NewFault()})
	}
	for r := range ws {
		w, err := NewWorld(r, n, h.seats[r], cfg)
		if err != nil {
			return nil, err
		}
		ws[r] = w
	}
	return ws, nil
}

// hub is what the ranks of an in-process world share.
type hub struct {
	seats  []*seat
	mu     sync.Mutex
	boards map[int]*board // by the group's number
}

// seat is one rank's Transport.
type seat struct {
	hub   *hub
	rank  int
	fault *Fault
	gone  atomic.Bool
	mu    sync.Mutex
	note  Note
}

var _ Transport = (*seat)(nil)

func (s *seat) Join(id int, name string, ranks []int, me int) (Memory, Messages, error) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	b := s.hub.boards[id]
	if b == nil {
		b = &board{name: name, ranks: ranks, cells: make([]atomic.Pointer[localCell], len(ranks)*(1+2*len(ranks)))}
		s.hub.boards[id] = b
	}
	if b.name != name || !slices.Equal(b.ranks, ranks) {
		return nil, nil, fmt.Errorf("%w: rank %d forms it of ranks %v where another forms group %s of ranks %v", ErrMismatch, s.rank, ranks, b.name, b.ranks)
	}
	return &localPort{board: b, me: me, fault: s.fault}, nil, nil
}

func (s *seat) Arena() *tensor.Arena { return nil }
func (s *seat) Fault() *Fault        { return s.fault }

func (s *seat) Note(n *Note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note = *n
}

func (s *seat) Doing(rank int) string {
	o := s.hub.seats[rank]
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.note.String()
}

func (s *seat) Spread(f *Failure) {
	for _, o := range s.hub.seats {
		o.fault.Raise(f)
	}
}

func (s *seat) Gone(rank int) bool { return s.hub.seats[rank].gone.Load() }

func (s *seat) Close() error {
	s.gone.Store(true)
	return nil
}

// board holds the cells of a group, made when first used.
type board struct {
	name  string
	ranks []int
	cells []atomic.Pointer[localCell]
}

type localCell struct {
	Cell
	shown [2][]byte
	mu    sync.Mutex
	woken chan struct{} // closed at the next change, when somebody sleeps
}

func (b *board) cell(rank, ch int) *localCell {
	p := &b.cells[rank*(1+2*len(b.ranks))+ch]
	if p.Load() == nil {
		p.CompareAndSwap(nil, &localCell{})
	}
	return p.Load()
}

// localPort is one rank's Memory.
type localPort struct {
	*board
	me    int
	fault *Fault
}

var _ Memory = (*localPort)(nil)

func (p *localPort) Cell(rank, ch int) *Cell { return &p.cell(rank, ch).Cell }

func (p *localPort) Expose(ch, slot int, b []byte) []byte {
	p.cell(p.me, ch).shown[slot] = b
	return b
}

func (p *localPort) Conceal(ch, slot int) { p.cell(p.me, ch).shown[slot] = nil }

func (p *localPort) Exposed(rank, ch, slot int) ([]byte, error) {
	return p.cell(rank, ch).shown[slot], nil
}

func (p *localPort) Sleep(rank, ch int, seen uint32, d time.Duration) {
	c := p.cell(rank, ch)
	c.mu.Lock()
	atomic.StoreUint32(&c.Waiters, 1)
	if atomic.LoadUint32(&c.Clock) != seen {
		c.mu.Unlock()
		return
	}
	if c.woken == nil {
		c.woken = make(chan struct{})
	}
	woken := c.woken
	c.mu.Unlock()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-woken:
	case <-t.C:
	case <-p.fault.Done():
	}
}

func (p *localPort) Wake(ch int) {
	c := p.cell(p.me, ch)
	if atomic.LoadUint32(&c.Waiters) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	atomic.StoreUint32(&c.Waiters, 0)
	if c.woken != nil {
		close(c.woken)
		c.woken = nil
	}
}
