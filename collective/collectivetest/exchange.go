package collectivetest

import (
	"context"
	"fmt"
	"sync"
)

// Exchange is where the ranks of one process meet. Rank gives one rank's view of it.
type Exchange struct {
	n    int
	mu   sync.Mutex
	keys map[string]*meeting
}

type meeting struct {
	all  [][]byte
	n    int
	full chan struct{}
}

// NewExchange is a meeting point of n ranks.
func NewExchange(n int) *Exchange { return &Exchange{n: n, keys: map[string]*meeting{}} }

// Seat is one rank's view of an Exchange.
type Seat struct {
	e     *Exchange
	rank  int
	turns int // of Gather
}

// Rank is a rank's view.
func (e *Exchange) Rank(r int) *Seat { return &Seat{e: e, rank: r} }

// Rank, Size and AllGatherBytes make a Seat a checkpoint.ProcessGroup. A rank calls AllGatherBytes once at a time.
func (s *Seat) Rank() int { return s.rank }

// Size is the number of ranks.
func (s *Seat) Size() int { return s.e.n }

// AllGatherBytes is AllGather of the ranks' next turn.
func (s *Seat) AllGatherBytes(ctx context.Context, mine []byte) ([][]byte, error) {
	s.turns++
	return s.AllGather(ctx, fmt.Sprint("turn ", s.turns), mine)
}

// AllGather returns what every rank brought under key, when all have.
func (s *Seat) AllGather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	e := s.e
	e.mu.Lock()
	m := e.keys[key]
	if m == nil {
		m = &meeting{all: make([][]byte, e.n), full: make(chan struct{})}
		e.keys[key] = m
	}
	m.all[s.rank] = append([]byte{}, mine...)
	if m.n++; m.n == e.n {
		close(m.full)
	}
	e.mu.Unlock()
	select {
	case <-m.full:
		return m.all, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("exchange %s: %d of %d ranks came: %w", key, m.n, e.n, ctx.Err())
	}
}
