package collectivetest

import (
	"context"
	"fmt"
	"sync"
)

// Bootstrap is where the ranks of one process meet. Rank gives one rank's view of it.
type Bootstrap struct {
	n    int
	mu   sync.Mutex
	keys map[string]*exchange
}

type exchange struct {
	all  [][]byte
	n    int
	full chan struct{}
}

// NewBootstrap is a meeting point of n ranks.
func NewBootstrap(n int) *Bootstrap { return &Bootstrap{n: n, keys: map[string]*exchange{}} }

// RankBootstrap is one rank's view of a Bootstrap.
type RankBootstrap struct {
	e       *Bootstrap
	rank    int
	gathers int // of Gather
}

// Rank is a rank's view.
func (e *Bootstrap) Rank(r int) *RankBootstrap { return &RankBootstrap{e: e, rank: r} }

// Rank, Size and AllGatherBytes make a RankBootstrap a checkpoint.ProcessGroup. A rank calls
// AllGatherBytes from one goroutine at a time.
func (s *RankBootstrap) Rank() int { return s.rank }

// Size is the number of ranks.
func (s *RankBootstrap) Size() int { return s.e.n }

// AllGatherBytes is AllGather with the next key.
func (s *RankBootstrap) AllGatherBytes(ctx context.Context, mine []byte) ([][]byte, error) {
	s.gathers++
	return s.AllGather(ctx, fmt.Sprint("turn ", s.gathers), mine)
}

// AllGather returns what every rank brought under key, when all have.
func (s *RankBootstrap) AllGather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	e := s.e
	e.mu.Lock()
	m := e.keys[key]
	if m == nil {
		m = &exchange{all: make([][]byte, e.n), full: make(chan struct{})}
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
