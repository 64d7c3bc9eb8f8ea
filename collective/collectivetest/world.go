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

var ctx = context.Background()

type rank struct {
	collective.World
	t     *testing.T
	g     collective.Group // all ranks
	count int              // tensors made
}

// each runs f on every rank of a new world and closes the world. It fails the test if a rank hangs for a
// minute.
func each(t *testing.T, mk Make, n int, cfg collective.Config, f func(r *rank) error) {
	t.Helper()
	ws := mk(t, n, cfg)
	errs := make([]error, n)
	var wg, formed sync.WaitGroup
	formed.Add(n)
	for i, w := range ws {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = func() error {
				all := make([]int, n)
				for j := range all {
					all[j] = j
				}
				g, err := w.Group("all", all)
				formed.Done()
				formed.Wait() // no failure before all have formed the group
				if err != nil {
					return err
				}
				return f(&rank{World: w, t: t, g: g})
			}()
		}()
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("ranks hang")
	}
	for i, w := range ws {
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
