package collectivetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"trireme/collective"
	"trireme/tensor"
)

// Make returns a world of n ranks in this process, or fails the test.
type Make func(t *testing.T, n int, cfg collective.Config) []collective.World

// maker makes worlds for the ranks of this process; the worlds of others are nil.
type maker struct {
	worlds  Make
	meeting func(n int) func(rank int) // returns a function that waits until n ranks have called it as often
}

// meeting is a maker's, of ranks in this process.
func meeting(n int) func(rank int) {
	var mu sync.Mutex
	var all []*sync.WaitGroup
	calls := make([]int, n)
	return func(rank int) {
		mu.Lock()
		if calls[rank] == len(all) {
			all = append(all, &sync.WaitGroup{})
			all[len(all)-1].Add(n)
		}
		w := all[calls[rank]]
		calls[rank]++
		mu.Unlock()
		w.Done()
		w.Wait()
	}
}

var ctx = context.Background()

type rank struct {
	collective.World
	t     *testing.T
	g     collective.Group // all ranks
	meet  func()           // waits until all ranks have called it
	count int              // tensors made
}

// each runs f on every rank of a new world and closes the world. It fails the test if a rank hangs for a
// minute.
func each(t *testing.T, mk maker, n int, cfg collective.Config, f func(r *rank) error) {
	t.Helper()
	ws, meet := mk.worlds(t, n, cfg), mk.meeting(n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i, w := range ws {
		if w == nil { // in another process
			continue
		}
		wg.Go(func() {
			all := make([]int, n)
			for j := range all {
				all[j] = j
			}
			var g collective.Group
			g, errs[i] = w.Group("all", all)
			meet(i) // no failure before all have formed the group
			if errs[i] == nil {
				errs[i] = f(&rank{World: w, t: t, g: g, meet: func() { meet(i) }})
			}
			meet(i) // no rank closes its world before
		})
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("ranks hang")
	}
	for i, w := range ws {
		if w == nil {
			continue
		}
		if err := w.Close(); err != nil {
			t.Errorf("rank %d: close: %v", i, err)
		}
		if errs[i] != nil {
			t.Errorf("rank %d: %v", i, errs[i])
		}
	}
}

// tensor makes a tensor, every other one in the arena if there is one.
func (r *rank) tensor(dt tensor.DType, n int) *tensor.Tensor {
	r.count++
	size := n * dt.Size()
	if a := r.Arena(); a != nil && r.count%2 == 0 {
		return tensor.Of(tensor.NewBuffer(a.Alloc(size), size, tensor.Params, nil), dt, 0, n)
	}
	return tensor.Of(tensor.NewBuffer(make([]byte, size+8)[:size], size, tensor.Params, nil), dt, 0, n)
}

func (r *rank) full(dt tensor.DType, n, who int) *tensor.Tensor {
	t := r.tensor(dt, n)
	copy(tensor.HostBytes(t), values(dt, n, who))
	return t
}

func same(what string, got *tensor.Tensor, want []byte) error {
	g := tensor.HostBytes(got)
	if len(g) != len(want) {
		return fmt.Errorf("%s: %d bytes, want %d", what, len(g), len(want))
	}
	if bytes.Equal(g, want) {
		return nil
	}
	i := 0
	for g[i] == want[i] {
		i++
	}
	return fmt.Errorf("%s: %v: element %d differs", what, got, i/got.DType().Size())
}
