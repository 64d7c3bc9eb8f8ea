package collectivetest

import (
	"context"
	"fmt"
	"sync"
)

// Bootstrap exchanges values between the ranks of one process.
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

// NewBootstrap returns a Bootstrap for n ranks.
func NewBootstrap(n int) *Bootstrap { return &Bootstrap{n: n, keys: map[string]*exchange{}} }

// RankBootstrap is one rank's view of a Bootstrap.
type RankBootstrap struct {
	e       *Bootstrap
	rank    int
	gathers int // calls of AllGatherBytes
}

// Rank returns rank r's view.
func (e *Bootstrap) Rank(r int) *RankBootstrap { return &RankBootstrap{e: e, rank: r} }

// Rank, Size and AllGatherBytes make a RankBootstrap a checkpoint.ProcessGroup. A rank calls
// AllGatherBytes from one goroutine at a time.
func (s *RankBootstrap) Rank() int { return s.rank }

// Size returns the number of ranks.
func (s *RankBootstrap) Size() int { return s.e.n }

// AllGatherBytes is AllGather with the next key.
func (s *RankBootstrap) AllGatherBytes(ctx context.Context, mine []byte) ([][]byte, error) {
	s.gathers++
	return s.AllGather(ctx, fmt.Sprint("gather ", s.gathers), mine)
}

// AllGather returns every rank's value for key when all have called it.
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
		return nil, fmt.Errorf("all-gather %s: %d of %d ranks called it: %w", key, m.n, e.n, ctx.Err())
	}
}
