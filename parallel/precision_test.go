package parallel_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"trireme/collective"
	"trireme/device"
	"trireme/nn"
	"trireme/parallel"
	"trireme/tensor"
)

var half = parallel.Precision{Param: tensor.BF16, Reduce: tensor.BF16}

// TestVolumeMixed: parameters are communicated in Precision.Param, gradients in Precision.Reduce.
// Unsharded gradients, with which every rank updates, are F32 sums.
func TestVolumeMixed(t *testing.T) {
	c := toy{V: 29, D: 16, F: 21, layers: 3, rows: 4}
	sizes, P := c.flatBytes(t, 4) // of F32
	last := sizes[len(sizes)-1]
	for _, v := range []struct {
		strategy         string
		precision        parallel.Precision
		replicas, micros int
		local            bool
		refresh          int // bytes all-gathered before the first step
		gather, reduce   int
	}{
		{strategy: "full_shard", precision: parallel.Precision{Param: tensor.BF16}, micros: 1, gather: (2*P - last) / 2, reduce: P},
		{strategy: "full_shard", precision: half, micros: 1, gather: (2*P - last) / 2, reduce: P / 2},
		{strategy: "full_shard", precision: half, micros: 3, gather: 3 * (2*P - last) / 2, reduce: 3 * P / 2},
		{strategy: "full_shard", precision: parallel.Precision{Reduce: tensor.BF16}, micros: 1, gather: 2*P - last, reduce: P / 2},
		{strategy: "shard_grad_op", precision: half, micros: 1, refresh: P / 2, gather: P / 2, reduce: P / 2},
		{strategy: "zero_1", precision: half, micros: 3, refresh: P / 2, gather: P / 2, reduce: 3 * P / 2},
		{strategy: "zero_1", precision: half, micros: 3, local: true, refresh: P / 2, gather: P / 2, reduce: P / 2},
		{strategy: "no_shard", precision: half, micros: 1, gather: P, reduce: P / 2},
		{strategy: "no_shard", precision: half, micros: 3, local: true, gather: P, reduce: P / 2},
	} {
		c.precision = v.precision
		d := setup{world: 4, accumulation: v.micros, replicas: 1, strategy: v.strategy, local: v.local, steps: 1, poison: -1}
		js := d.journals()
		if _, errs := c.train(t, d); errors.Join(errs...) != nil {
			t.Fatal(errors.Join(errs...))
		}
		for rank, j := range js {
			n := j.volume
			gather, reduce := n["gather world"]+n["gather shard"], n["reduce world"]+n["reduce shard"]
			if gather != v.refresh+v.gather || reduce != v.reduce {
				t.Errorf("%v, %v: rank %d moves %v; want of %d bytes: gather %d, reduce %d", d, v.precision, rank, n, P, v.refresh+v.gather, v.reduce)
			}
		}
	}
}

// TestMastersAreSharded: between steps a rank holds 2 bytes per compute parameter and 4 per element that
// it updates.
func TestMastersAreSharded(t *testing.T) {
	const world = 4
	c := toy{V: 29, D: 16, F: 21, layers: 3, rows: 4, precision: half, frozen: map[string]bool{"layer1.gate.weight": true, "layer2.norm.weight": true}}
	whole := func(frozen bool) (n int64) { // elements, padded
		b := openDevice(t)
		defer b.Close()
		for _, u := range c.make(b).units {
			var ps []*nn.Param
			for _, p := range u.Params {
				if p.Frozen == frozen {
					ps = append(ps, p)
				}
			}
			n += int64(padded(ps, world))
		}
		return n
	}
	trained, frozen := whole(false), whole(true)
	for strategy, v := range map[string]struct{ params, grads, updated int64 }{ // number of ranks that shard each
		"no_shard": {1, 1, 1}, "zero_1": {1, 1, world}, "shard_grad_op": {1, world, world}, "full_shard": {world, world, world},
	} {
		d := setup{world: world, accumulation: 1, replicas: 1, strategy: strategy, steps: 1, poison: -1}
		d.after = func(rank int, b device.Device, _ *parallel.Engine, _ tensor.Usage) {
			use := b.Meter().Read().Live
			for cat, want := range map[tensor.Category]int64{
				tensor.Params: 2 * (trained + frozen) / v.params, tensor.Grads: 4 * trained / v.grads,
				tensor.Master: 4*trained/v.updated + 4*frozen/world, tensor.Optimizer: 8 * trained / v.updated,
			} {
				if use[cat] != want {
					t.Errorf("%s: rank %d holds %d bytes of %v, want %d", strategy, rank, use[cat], cat, want)
				}
			}
		}
		if _, errs := c.train(t, d); errors.Join(errs...) != nil {
			t.Fatal(errors.Join(errs...))
		}
	}
}

// TestNotInvariantMixed: sums in another order agree up to the rounding of their type.
func TestNotInvariantMixed(t *testing.T) {
	c := toy{V: 23, D: 9, F: 11, layers: 2, rows: 6, precision: half}
	want := c.plain(t, 1, 12, -1)
	for _, strategy := range strategies {
		replicas := 1
		if strings.HasPrefix(strategy, "hybrid") {
			replicas = 2
		}
		d := setup{world: 4, accumulation: 3, replicas: replicas, strategy: strategy, local: true, steps: 1, poison: -1}
		got, errs := c.train(t, d)
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		// The sum over 3 micro-batches is rounded instead of 3 numbers: half a unit in 2^8.
		norm, w := got.scalars[0][tensor.ScalarGradNorm], want.scalars[0][tensor.ScalarGradNorm]
		if math.Abs(norm-w) > w/256 {
			t.Errorf("%v: gradient norm %v, want %v", d, norm, w)
		}
		if l, w := got.scalars[0][tensor.ScalarLoss], want.scalars[0][tensor.ScalarLoss]; l != w {
			t.Errorf("%v: loss %v, want %v", d, l, w)
		}
	}
}

// precise returns an engine of one rank in bfloat16, after Init.
func precise(t *testing.T, o parallel.Options) (b device.Device, n *network, e *parallel.Engine) {
	t.Helper()
	b = openDevice(t)
	t.Cleanup(func() { b.Close() })
	worlds, err := collective.NewLocal(1, collective.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { worlds[0].Close() })
	mesh, err := parallel.NewMesh(worlds[0], parallel.MeshShape{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	n = toy{V: 5, D: 4, F: 3, layers: 1}.make(b)
	o.Precision, o.Optim = half, adam
	if e, err = parallel.New(b, mesh, n.units, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	if err := e.Init(1); err != nil {
		t.Fatal(err)
	}
	return b, n, e
}

// roundedMaster compares the compute parameter of the embedding with its master.
func roundedMaster(t *testing.T, b tensor.Backend, n *network, e *parallel.Engine) {
	t.Helper()
	for _, s := range e.HeldParams() {
		if s.Name != "embed.weight" {
			continue
		}
		w := b.New(tensor.Workspace, tensor.BF16, s.Box.Elems())
		b.Copy(w, s.Data)
		if string(tensor.HostBytes(w)) != string(tensor.HostBytes(n.embed.Weight.Value)) {
			t.Error("the compute parameter is not the rounded master")
		}
		w.Release()
	}
}

// TestBeginNeedsRefresh: Begin panics before compute parameters are cast.
func TestBeginNeedsRefresh(t *testing.T) {
	b, n, e := precise(t, parallel.Options{Hold: true})
	err := e.Guard(func() { e.Begin(context.Background(), 1, true) })
	if err == nil || !strings.Contains(err.Error(), "Begin before Refresh") {
		t.Errorf("a step before Refresh ends with %v", err)
	}
	if err := e.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	roundedMaster(t, b, n, e)
}

// TestCastParams: without Hold, compute parameters exist from a unit's forward to its last backward in a step; those of
// an evaluation stay until masters change.
func TestCastParams(t *testing.T) {
	b, n, e := precise(t, parallel.Options{})
	if err := e.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	live := func() int64 { return b.Meter().Read().Live[tensor.Params] }
	x := b.New(tensor.Workspace, tensor.BF16, 1)
	forward := func() {
		e.NextMicroBatch()
		for _, u := range n.units {
			e.BeforeForward(u, x)
			if u == n.units[0] {
				roundedMaster(t, b, n, e)
			}
			e.AfterForward(u)
		}
	}
	if live() != 0 {
		t.Errorf("%d bytes of compute parameters before a pass", live())
	}
	const micros = 2
	e.Begin(context.Background(), micros, true)
	for micro := range micros {
		forward()
		all := live()
		for i := len(n.units) - 1; i >= 0; i-- {
			e.BeforeBackward(n.units[i], x)
			e.AfterBackward(n.units[i])
		}
		if left := live(); all == 0 || micro == 0 && left != all || micro == micros-1 && left != 0 {
			t.Errorf("micro-batch %d: %d bytes after forward, %d after backward", micro, all, left)
		}
	}
	e.Finish(1, 0, nil)
	e.Publish()
	e.Begin(context.Background(), 1, false)
	forward()
	e.Finish(1, 0, nil)
	if live() == 0 {
		t.Error("an evaluation freed the compute parameters")
	}
	e.Publish()
	if live() != 0 {
		t.Errorf("%d bytes of compute parameters of old masters", live())
	}
}
