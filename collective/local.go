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
	h := &localWorld{boards: map[int]*localGroup{}}
	ws := make([]World, n)
	for r := range ws {
		h.seats = append(h.seats, &localTransport{hub: h, rank: r, fault: NewFailureOnce()})
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

// localWorld is what the ranks of an in-process world share.
type localWorld struct {
	seats  []*localTransport
	mu     sync.Mutex
	boards map[int]*localGroup // by the group's number
}

// localTransport is one rank's Transport.
type localTransport struct {
	hub   *localWorld
	rank  int
	fault *FailureOnce
	gone  atomic.Bool
	mu    sync.Mutex
	note  LastOp
}

var _ Transport = (*localTransport)(nil)

func (s *localTransport) Join(id int, name string, ranks []int, me int) (Memory, Messages, error) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	b := s.hub.boards[id]
	if b == nil {
		b = &localGroup{name: name, ranks: ranks, cells: make([]atomic.Pointer[localChannel], len(ranks)*(1+2*len(ranks)))}
		s.hub.boards[id] = b
	}
	if b.name != name || !slices.Equal(b.ranks, ranks) {
		return nil, nil, fmt.Errorf("%w: rank %d forms it of ranks %v where another forms group %s of ranks %v", ErrMismatch, s.rank, ranks, b.name, b.ranks)
	}
	return &localMemory{localGroup: b, me: me, fault: s.fault}, nil, nil
}

func (s *localTransport) Arena() *tensor.Arena  { return nil }
func (s *localTransport) Failure() *FailureOnce { return s.fault }

func (s *localTransport) SetLastOp(n *LastOp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note = *n
}

func (s *localTransport) LastOp(rank int) string {
	o := s.hub.seats[rank]
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.note.String()
}

func (s *localTransport) SendFailure(f *Failure) {
	for _, o := range s.hub.seats {
		o.fault.Set(f)
	}
}

func (s *localTransport) Closed(rank int) bool { return s.hub.seats[rank].gone.Load() }

func (s *localTransport) Close() error {
	s.gone.Store(true)
	return nil
}

// localGroup holds the cells of a group, made when first used.
type localGroup struct {
	name  string
	ranks []int
	cells []atomic.Pointer[localChannel]
}

type localChannel struct {
	ChannelState
	shown [2][]byte
	mu    sync.Mutex
	woken chan struct{} // closed at the next change, when somebody sleeps
}

func (b *localGroup) cell(rank, ch int) *localChannel {
	p := &b.cells[rank*(1+2*len(b.ranks))+ch]
	if p.Load() == nil {
		p.CompareAndSwap(nil, &localChannel{})
	}
	return p.Load()
}

// localMemory is one rank's Memory.
type localMemory struct {
	*localGroup
	me    int
	fault *FailureOnce
}

var _ Memory = (*localMemory)(nil)

func (p *localMemory) State(rank, ch int) *ChannelState { return &p.cell(rank, ch).ChannelState }

func (p *localMemory) Expose(ch, slot int, b []byte) []byte {
	p.cell(p.me, ch).shown[slot] = b
	return b
}

func (p *localMemory) Unexpose(ch, slot int) { p.cell(p.me, ch).shown[slot] = nil }

func (p *localMemory) Exposed(rank, ch, slot int) ([]byte, error) {
	return p.cell(rank, ch).shown[slot], nil
}

func (p *localMemory) Wait(rank, ch int, seen uint32, d time.Duration) {
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

func (p *localMemory) Wake(ch int) {
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
