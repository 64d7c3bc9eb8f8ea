package parallel_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"trireme/device"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
)

// TestStateIsComplete: the states that ranks save of parameters and of each slot (per element, block or
// matrix) cover them completely, and sharded ones once.
func TestStateIsComplete(t *testing.T) {
	for i, how := range groupings {
		for _, world := range []int{1, 2, 3, 5} {
			c := wide
			c.optim = how
			d := setup{world: world, accumulation: 1, replicas: 1, strategy: "full_shard", steps: 1, poison: -1}
			var mu sync.Mutex
			seen := map[string][]int{} // count of each element, by kind and name
			d.after = func(rank int, b device.Device, e *parallel.Engine, _ tensor.Usage) {
				mu.Lock()
				defer mu.Unlock()
				left := b.Meter().Read().Live[tensor.Optimizer]
				for _, s := range e.Slots() {
					left -= s.Bytes
				}
				if left != 0 {
					t.Errorf("optimizers %d, rank %d of %d: %v omit %d bytes of state", i, rank, world, e.Slots(), left)
				}
				for _, it := range e.State() {
					key := it.Kind + " of " + it.Name
					if seen[key] == nil {
						seen[key] = make([]int, it.Shape.Elems())
					}
					for at := range it.Shape.Elems() {
						if inside(it.Box, it.Shape, at) {
							seen[key][at]++
						}
					}
				}
			}
			if _, errs := c.train(t, d); errors.Join(errs...) != nil {
				t.Fatal(errors.Join(errs...))
			}
			b := openDevice(t)
			want := 0
			for _, p := range c.make(b).params() {
				slots := []optim.Slot{{Name: "param", Block: 1}}
				for _, s := range append(slots, c.kind(p).Optimizer.Slots()...) {
					want++
					n := (p.Shape.Elems() + s.Block - 1) / s.Block
					if s.MatrixShape != nil {
						n = s.MatrixShape(p.Shape).Elems()
					}
					got := seen[s.Name+" of "+p.Name]
					if len(got) != n {
						t.Fatalf("optimizers %d on %d: %s of %s has %d elements, want %d", i, world, s.Name, p.Name, len(got), n)
					}
					for at, times := range got {
						if times != 1 {
							t.Fatalf("optimizers %d on %d: element %d of %s of %s occurs %d times", i, world, at, s.Name, p.Name, times)
						}
					}
				}
			}
			b.Close()
			if len(seen) != want {
				t.Errorf("optimizers %d on %d: %d tensors, want %d: %s", i, world, len(seen), want, fmt.Sprint(seen)[:200])
			}
		}
	}
}

func inside(b tensor.Box, shape tensor.Shape, at int) bool {
	for d := len(shape) - 1; d >= 0; d-- {
		i := at % shape[d]
		at /= shape[d]
		if i < b.Offsets[d] || i >= b.Offsets[d]+b.Sizes[d] {
			return false
		}
	}
	return true
}

// TestOwnedSlots: ranks export the same elements of a slot as they save, whatever other slots its
// optimizer has.
func TestOwnedSlots(t *testing.T) {
	for i, how := range groupings {
		for _, world := range []int{1, 3} {
			c := wide
			c.optim = how
			slots := map[string][]string{} // per parameter
			b := openDevice(t)
			for _, p := range c.make(b).params() {
				for _, s := range c.kind(p).Optimizer.Slots() {
					if s.MatrixShape == nil && s.Block == 1 {
						slots[s.Name] = append(slots[s.Name], p.Name)
					}
				}
			}
			b.Close()
			d := setup{world: world, accumulation: 1, replicas: 1, strategy: "full_shard", steps: 1, poison: -1}
			var mu sync.Mutex
			owned := map[string][]byte{}
			d.after = func(rank int, b device.Device, e *parallel.Engine, _ tensor.Usage) {
				mu.Lock()
				defer mu.Unlock()
				for slot, names := range slots {
					for _, s := range e.OwnedSlot(slot) {
						if key, size := slot+" of "+s.Name, s.DType.Size(); slices.Contains(names, s.Name) {
							if owned[key] == nil {
								owned[key] = make([]byte, s.Shape.Elems()*size)
							}
							for run := range s.Runs() {
								copy(owned[key][run.Y*size:], readBytes(t, s.Data)[run.X*size:][:run.N*size])
							}
						}
					}
				}
			}
			out, errs := c.train(t, d)
			if errors.Join(errs...) != nil {
				t.Fatal(errors.Join(errs...))
			}
			for slot, names := range slots {
				for _, name := range names {
					if key := slot + " of " + name; !bytes.Equal(owned[key], out.state[key]) {
						t.Errorf("optimizers %d on %d: %s is exported with other values", i, world, key)
					}
				}
			}
		}
	}
}
