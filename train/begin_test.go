package train

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"trireme/checkpoint/safetensors"
	"trireme/collective"
	"trireme/device"
	"trireme/model"
	"trireme/nn"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
)

// While parameters are initialized, at random or from files, a rank has only its shards: no other tensor,
// and nothing as large as a parameter on the Go heap.
func TestNoRankHoldsTheModel(t *testing.T) {
	const rows, wide = 2048, 512 // 4 MiB a parameter
	var entries []safetensors.Entry
	units := func() (us []*nn.Unit) {
		for i := range 4 {
			name := fmt.Sprintf("net.layer%d.weight", i)
			us = append(us, &nn.Unit{Name: name, Params: []*nn.Param{nn.NewParam(name, nn.Init{Kind: nn.Normal, Std: 1}, rows, wide)}})
		}
		return us
	}
	for i, u := range units() {
		entries = append(entries, entry(u.Params[0].Name, []tensor.DType{tensor.F32, tensor.BF16}[i%2], rows, wide))
	}
	files := file(t, entries...)
	for _, size := range []int{1, 2, 4} {
		for _, precision := range []parallel.Precision{{}, {Param: tensor.BF16}} {
			for _, read := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d ranks, %v, read %t", size, precision.Param, read), func(t *testing.T) {
					worlds, err := collective.NewLocal(size, collective.Config{})
					if err != nil {
						t.Fatal(err)
					}
					for _, w := range worlds {
						defer w.Close()
					}
					for rank := range size {
						b, err := device.Open("cpu", device.Options{Threads: 1})
						if err != nil {
							t.Fatal(err)
						}
						defer b.Close()
						groups, err := parallel.NewMesh(worlds[rank], parallel.MeshShape{parallel.Shard: size}, 0)
						if err != nil {
							t.Fatal(err)
						}
						s, _, err := parallel.Default().Resolve(size, 0)
						if err != nil {
							t.Fatal(err)
						}
						m := &toy{units: units()}
						var before, after runtime.MemStats
						runtime.ReadMemStats(&before)
						e, err := parallel.New(b, groups, m.Units(), parallel.Options{Strategy: s, Precision: precision, Optim: optim.Grouping{Optimizer: optim.AdamW{}}})
						if err != nil {
							t.Fatal(err)
						}
						defer e.Close()
						if read {
							w, err := ModelConfig{}.match(m, &model.Config{Family: toyFamily}, files)
							if err == nil {
								err = w.load(b, e, 3)
							}
							if err != nil {
								t.Fatal(err)
							}
						} else if err := e.Init(3); err != nil {
							t.Fatal(err)
						}
						if err := e.Refresh(context.Background()); err != nil {
							t.Fatal(err)
						}
						runtime.ReadMemStats(&after)
						use := b.Meter().Read()
						if use.PeakTotal != use.LiveTotal {
							t.Errorf("rank %d used %d bytes at the peak, %d after it", rank, use.PeakTotal, use.LiveTotal)
						}
						want := int64(4 * rows * wide * precision.Param.Size() / size)
						if size == 1 && precision.Param != tensor.F32 {
							want = 0 // cast in forward
						}
						if got := use.Peak[tensor.Params]; got != want {
							t.Errorf("rank %d has %d bytes of parameters, its shard is %d", rank, got, want)
						}
						// Short is for the race detector, under which a sync.Pool forgets at random.
						if got := after.TotalAlloc - before.TotalAlloc; got > rows*wide*4/2 && !testing.Short() {
							t.Errorf("rank %d: %d bytes of the heap, a parameter has %d", rank, got, rows*wide*4)
						}
					}
				})
			}
		}
	}
}
