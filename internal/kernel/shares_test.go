package kernel

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// A thread takes the things of its share in order, then those that others left, in each round.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		n, threads      int
		by, want        []int
		shares, missing int
	}{
		{n: 7, threads: 3, by: []int{1, 2, 1, 1, 1, 0, 2}, want: []int{2, 4, 3, 5, 6, 0, 1}, shares: 3},
		{n: 3, threads: 1, by: []int{0, 0, 0}, want: []int{0, 1, 2}, shares: 1},
		{n: 2, threads: 5, by: []int{0, 4}, want: []int{0, 1}, shares: 5},
		{n: 64, threads: 32, by: []int{31, 0, 30, 1, 29}, want: []int{60, 0, 61, 1, 56}, shares: 16, missing: 59},
	} {
		s := NewShares(c.threads)
		if len(s) != c.shares {
			t.Errorf("%d threads have %d shares, want %d", c.threads, len(s), c.shares)
		}
		for round := range 3 {
			var got []int
			for _, thread := range c.by {
				i, ok := s.Take(c.n, round, thread, c.threads)
				if !ok {
					t.Fatalf("%+v: nothing is left for thread %d", c, thread)
				}
				got = append(got, i)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("round %d of %+v: took %v", round, c, got)
			}
			for range c.missing {
				s.Take(c.n, round, 0, c.threads)
			}
			if i, ok := s.Take(c.n, round, 0, c.threads); ok {
				t.Errorf("round %d of %+v: took %d after all", round, c, i)
			}
		}
	}
}

// Threads that take at once take each thing once.
func TestSharesAtOnce(t *testing.T) {
	const n, threads = 1000, 5
	s := NewShares(threads)
	var times [n]atomic.Int64
	var wg sync.WaitGroup
	for thread := range threads {
		wg.Go(func() {
			for i, ok := s.Take(n, 0, thread, threads); ok; i, ok = s.Take(n, 0, thread, threads) {
				times[i].Add(1)
			}
		})
	}
	wg.Wait()
	for i := range times {
		if got := times[i].Load(); got != 1 {
			t.Fatalf("%d was taken %d times", i, got)
		}
	}
}
