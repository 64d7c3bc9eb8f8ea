package collective

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"trireme/tensor"
)

// NewLocal returns n ranks of a world within this process. Use each from its own goroutine, and close it.
func NewLocal(n int, cfg Config) ([]World, error) {
	h := &localWorld{groups: map[int]*localGroup{}}
	ws := make([]World, n)
	for r := range ws {
		h.ranks = append(h.ranks, &localTransport{world: h, rank: r, failure: NewFailureOnce()})
	}
	for r := range ws {
		w, err := NewWorld(r, n, h.ranks[r], cfg)
		if err != nil {
			return nil, err
		}
		ws[r] = w
	}
	return ws, nil
}

// localWorld is shared by the ranks of an in-process world.
type localWorld struct {
	ranks  []*localTransport
	mu     sync.Mutex
	groups map[int]*localGroup // by group id
}

type localTransport struct {
	world   *localWorld
	rank    int
	failure *FailureOnce
	gone    atomic.Bool
}

var _ Transport = (*localTransport)(nil)

func (s *localTransport) Join(id int, name string, ranks []int, me int) (Links, error) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	b := s.world.groups[id]
	if b == nil {
		b = &localGroup{name: name, ranks: ranks, cells: make([]atomic.Pointer[localChannel], len(ranks)*NumChannels(len(ranks)))}
		s.world.groups[id] = b
	}
	if b.name != name || !slices.Equal(b.ranks, ranks) {
		return Links{}, fmt.Errorf("%w: rank %d forms it with ranks %v, another rank forms group %s with ranks %v", ErrMismatch, s.rank, ranks, b.name, b.ranks)
	}
	return Links{Memory: &localMemory{localGroup: b, me: me, failure: s.failure}}, nil
}

func (s *localTransport) Arena() *tensor.Arena  { return nil }
func (s *localTransport) Failure() *FailureOnce { return s.failure }

func (s *localTransport) Describe(rank int) string { return fmt.Sprintf("rank %d", rank) }

func (s *localTransport) SendFailure(f *Failure) {
	for _, o := range s.world.ranks {
		o.failure.Set(f)
	}
}

func (s *localTransport) Closed(rank int) bool { return s.world.ranks[rank].gone.Load() }

func (s *localTransport) Close() error {
	s.gone.Store(true)
	return nil
}

// localGroup has the channels of a group, created on first use.
type localGroup struct {
	name  string
	ranks []int
	cells []atomic.Pointer[localChannel]
}

type localChannel struct {
	ChannelState
	exposed [2][]byte
	mu      sync.Mutex
	changed chan struct{} // closed at the next change; nil if nobody waits
}

func (b *localGroup) cell(rank, ch int) *localChannel {
	p := &b.cells[rank*NumChannels(len(b.ranks))+ch]
	if p.Load() == nil {
		p.CompareAndSwap(nil, &localChannel{})
	}
	return p.Load()
}

type localMemory struct {
	*localGroup
	me      int
	failure *FailureOnce
}

var _ Memory = (*localMemory)(nil)

func (p *localMemory) State(rank, ch int) *ChannelState { return &p.cell(rank, ch).ChannelState }

func (p *localMemory) Expose(ch, slot int, b []byte) []byte {
	p.cell(p.me, ch).exposed[slot] = b
	return b
}

func (p *localMemory) Unexpose(ch, slot int) { p.cell(p.me, ch).exposed[slot] = nil }

func (p *localMemory) Exposed(rank, ch, slot int) ([]byte, error) {
	return p.cell(rank, ch).exposed[slot], nil
}

func (p *localMemory) Wait(rank, ch int, seen uint32, d time.Duration) {
	c := p.cell(rank, ch)
	c.mu.Lock()
	atomic.StoreUint32(&c.Waiters, 1)
	if atomic.LoadUint32(&c.Clock) != seen {
		c.mu.Unlock()
		return
	}
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	woken := c.changed
	c.mu.Unlock()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-woken:
	case <-t.C:
	case <-p.failure.Done():
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
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}
