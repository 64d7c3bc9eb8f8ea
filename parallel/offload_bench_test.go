package parallel_test

import (
	"context"
	"testing"

	"trireme/collective"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
)

// BenchmarkUpdate updates 12.6 million float32 parameters on one thread, in memory and offloaded. Bytes
// count the updated state, which files read and write.
func BenchmarkUpdate(b *testing.B) {
	for _, way := range []struct {
		name string
		away bool
	}{{"memory", false}, {"files", true}} {
		b.Run(way.name, func(b *testing.B) {
			worlds, err := collective.NewLocal(1, collective.Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer worlds[0].Close()
			g, err := parallel.NewMesh(worlds[0], parallel.MeshShape{}, 0)
			if err != nil {
				b.Fatal(err)
			}
			o := parallel.Options{Strategy: parallel.Strategy{Name: "full_shard", Params: true, Grads: true, Optimizer: true}, Optim: adam}
			if way.away {
				o.Offload = nvme(b.TempDir())
				o.Offload.Optimizer.SubGroupSize = 1 << 20
			}
			d := openDevice(b)
			defer d.Close()
			n := toy{V: 16, D: 512, F: 2048, layers: 4}.make(d)
			e, err := parallel.New(d, g, n.units, o)
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			if err := e.Init(1); err != nil {
				b.Fatal(err)
			}
			if err := e.Refresh(context.Background()); err != nil {
				b.Fatal(err)
			}
			elems := 0
			for _, p := range n.params() {
				elems += p.Shape.Elems()
			}
			hyper, scalars := optim.NewInputs(d, e.ParamGroups()), d.New(tensor.Workspace, tensor.F64, tensor.ScalarCount)
			hyper.Write(d, 0, rate)
			d.Fill(scalars, 1)
			hyper.Next(d, scalars)
			b.SetBytes(int64(elems) * 12)
			for b.Loop() {
				if err := e.Guard(func() {
					e.Update(hyper.Hyper, scalars)
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
