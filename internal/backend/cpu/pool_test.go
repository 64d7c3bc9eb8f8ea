package cpu

import (
	"slices"
	"sync"
	"testing"
)

// Each tile is computed once, and threads that start together begin with their own shares.
func TestPoolShares(t *testing.T) {
	const threads, tiles = 4, 41
	p := newPool(threads)
	defer p.close()
	var mu sync.Mutex
	var began sync.WaitGroup
	began.Add(threads)
	first, times := map[int]int{}, make([]int, tiles)
	p.run(tiles, func(tile, thread int) {
		mu.Lock()
		times[tile]++
		_, later := first[thread]
		if !later {
			first[thread] = tile
			began.Done()
		}
		mu.Unlock()
		if !later {
			began.Wait()
		}
	})
	for thread := range threads {
		if lo := tiles * thread / threads; first[thread] != lo {
			t.Errorf("thread %d begins with tile %d, want %d", thread, first[thread], lo)
		}
	}
	if i := slices.IndexFunc(times, func(n int) bool { return n != 1 }); i >= 0 {
		t.Errorf("tile %d is computed %d times", i, times[i])
	}
}
