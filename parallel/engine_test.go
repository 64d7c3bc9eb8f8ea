package parallel_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"trireme/device"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
)

func nan() float64 { return math.NaN() }

var strategies = []string{"no_shard", "zero_1", "shard_grad_op", "full_shard", "hybrid_shard", "hybrid_shard_zero2"}

// differ describes the first difference between two runs; empty if there is none.
func differ(got, want *outcome) string {
	if len(got.scalars) != len(want.scalars) {
		return "a run is short"
	}
	for i := range want.scalars {
		for k, v := range want.scalars[i] {
			if math.Float64bits(got.scalars[i][k]) != math.Float64bits(v) && !(math.IsNaN(v) && math.IsNaN(got.scalars[i][k])) {
				return fmt.Sprintf("step %d: scalars %v, want %v", i+1, got.scalars[i], want.scalars[i])
			}
		}
	}
	for name, want := range want.params {
		if len(got.params[name]) != len(want) {
			return fmt.Sprintf("parameter %s is missing", name)
		}
		for i, v := range got.params[name] {
			if math.Float32bits(v) != math.Float32bits(want[i]) {
				return fmt.Sprintf("parameter %s, element %d: %v, want %v", name, i, v, want[i])
			}
		}
	}
	for name, want := range want.state {
		if !bytes.Equal(got.state[name], want) {
			return fmt.Sprintf("%s: %d bytes, which are not the %d of the plain loop", name, len(got.state[name]), len(want))
		}
	}
	return ""
}

func drawToy(t *rapid.T) toy {
	n := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
	c := toy{
		V: n("V", 2, 40), D: n("D", 1, 12), F: n("F", 1, 14), layers: n("layers", 1, 4), rows: n("rows", 1, 9),
		tied: rapid.Bool().Draw(t, "tied"), recompute: rapid.Bool().Draw(t, "recompute"), segments: n("segments", 0, 4), seed: int64(n("seed", 0, 1000)),
		frozen: map[string]bool{},
	}
	types := []tensor.DType{tensor.F32, tensor.BF16}
	c.precision = parallel.Precision{Param: rapid.SampledFrom(types).Draw(t, "param"), Reduce: rapid.SampledFrom(types).Draw(t, "reduce")}
	c.optim = rapid.SampledFrom(groupings).Draw(t, "optimizers")
	if rapid.Bool().Draw(t, "a parameter that nothing reads") {
		c.idle = n("idle", 1, c.layers)
	}
	for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{
		"embed", "layer1.norm.weight", "layer1.gate.weight", "layer1.up.bias", "layer1.down.weight", "layer2.up.weight", "last.norm.weight", "head",
	}), 0, 3).Draw(t, "frozen") {
		c.frozen[name] = true
	}
	return c
}

func drawPolicy(t *rapid.T, d *setup) {
	d.gather = parallel.AllGather{Prefetch: rapid.IntRange(0, 4).Draw(t, "ahead"), Keep: rapid.Bool().Draw(t, "keep")}
	shards := d.world / d.replicas
	ways := []int{0}
	for n := 1; n <= shards; n++ {
		if shards%n == 0 {
			ways = append(ways, n)
		}
	}
	d.reshard = rapid.SampledFrom(ways).Draw(t, "reshard")
}

// TestMatchesPlainLoop: every setup gives the bits of a plain loop.
func TestMatchesPlainLoop(t *testing.T) {
	defer goleak.VerifyNone(t)
	rapid.Check(t, func(rt *rapid.T) {
		c := drawToy(rt)
		d := setup{
			world:        rapid.SampledFrom([]int{1, 2, 3, 4, 5, 8}).Draw(rt, "world"),
			accumulation: rapid.IntRange(1, 3).Draw(rt, "accumulation"),
			strategy:     rapid.SampledFrom(strategies).Draw(rt, "strategy"),
			evaluate:     rapid.Bool().Draw(rt, "evaluate"),
			replicas:     1, steps: 3, poison: rapid.IntRange(-3, 2).Draw(rt, "poison"), late: rapid.IntRange(0, optim.MaxInFlight-1).Draw(rt, "late"),
		}
		if strings.HasPrefix(d.strategy, "hybrid") {
			var ways []int
			for r := 1; r <= d.world; r++ {
				if d.world%r == 0 {
					ways = append(ways, r)
				}
			}
			d.replicas = rapid.SampledFrom(ways).Draw(rt, "replicas")
		}
		drawPolicy(rt, &d)
		d.after = func(rank int, b device.Device, e *parallel.Engine, rest tensor.Usage) {
			if now := b.Meter().Read(); resting(now, d.world).Live != resting(rest, d.world).Live {
				rt.Errorf("%v: rank %d holds %v bytes after its steps, %v before", d, rank, now.Live, rest.Live)
			}
		}
		got, errs := c.train(t, d)
		if err := errors.Join(errs...); err != nil {
			rt.Fatal(err)
		}
		if diff := differ(got, c.plain(t, d.steps, d.world*d.accumulation, d.poison)); diff != "" {
			rt.Fatalf("%v, %+v: %s", d, d.gather, diff)
		}
	})
}

// TestSkippedUnit: a unit that no micro-batch runs gets a zero gradient and is resharded, in
// every strategy.
func TestSkippedUnit(t *testing.T) {
	c := toy{V: 11, D: 6, F: 5, layers: 5, rows: 4, skip: 2, frozen: map[string]bool{}}
	want := c.plain(t, 3, 4, -1)
	for i, strategy := range strategies {
		c.segments = i % 3 // with 2 the layer is the last of its segment
		d := setup{world: 2, accumulation: 2, replicas: 1, strategy: strategy, steps: 3, poison: -1, evaluate: true}
		d.after = func(rank int, b device.Device, e *parallel.Engine, rest tensor.Usage) {
			if now := b.Meter().Read(); resting(now, d.world).Live != resting(rest, d.world).Live {
				t.Errorf("%v: rank %d holds %v bytes after its steps, %v before", d, rank, now.Live, rest.Live)
			}
		}
		got, errs := c.train(t, d)
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if diff := differ(got, want); diff != "" {
			t.Errorf("%v: %s", d, diff)
		}
	}
}

// TestNotInvariant: sums in another order agree up to rounding.
func TestNotInvariant(t *testing.T) {
	c := toy{V: 23, D: 9, F: 11, layers: 2, rows: 6, frozen: map[string]bool{"layer1.up.bias": true}}
	want := c.plain(t, 2, 12, -1)
	for _, strategy := range strategies {
		for _, replicas := range []int{1, 2} {
			if replicas > 1 && !strings.HasPrefix(strategy, "hybrid") {
				continue
			}
			d := setup{world: 4, accumulation: 3, replicas: replicas, strategy: strategy, local: true, steps: 2, poison: -1}
			got, errs := c.train(t, d)
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			for i := range want.scalars {
				for k, v := range want.scalars[i] {
					if math.Abs(got.scalars[i][k]-v) > 1e-6*math.Abs(v) {
						t.Errorf("%v: step %d: scalars %v, want %v", d, i+1, got.scalars[i], want.scalars[i])
						break
					}
				}
			}
			for name, w := range want.params {
				for i, v := range got.params[name] {
					// An element whose gradient is near zero may differ by up to the learning rate.
					if math.Abs(float64(v-w[i])) > 2e-3 {
						t.Errorf("%v: parameter %s, element %d: %v, want %v", d, name, i, v, w[i])
						break
					}
				}
			}
		}
	}
}

// TestNaNSkipsEverywhere: a NaN in one rank's micro-batch leaves the state of every rank unchanged, and
// the next step is as without it.
func TestNaNSkipsEverywhere(t *testing.T) {
	c := toy{V: 11, D: 6, F: 5, layers: 2, rows: 4, frozen: map[string]bool{}}
	for _, strategy := range strategies {
		var mu sync.Mutex
		states := map[int][][]byte{}
		run := func(steps int) {
			d := setup{world: 4, accumulation: 1, replicas: 1, strategy: strategy, steps: steps, poison: 1}
			d.after = func(rank int, b device.Device, e *parallel.Engine, _ tensor.Usage) {
				mu.Lock()
				defer mu.Unlock()
				var all []byte
				for _, item := range e.State() {
					all = append(all, tensor.HostBytes(item.Shard.Data)...)
				}
				states[rank] = append(states[rank], all)
			}
			out, errs := c.train(t, d)
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			if steps == 2 && (out.scalars[1][tensor.ScalarApply] != 0 || !math.IsNaN(out.scalars[1][tensor.ScalarLoss])) {
				t.Errorf("%s: a step with a NaN has scalars %v", strategy, out.scalars[1])
			}
		}
		run(1)
		run(2)
		for rank, s := range states {
			if string(s[0]) != string(s[1]) {
				t.Errorf("%s: rank %d's state changed in a skipped step", strategy, rank)
			}
		}
	}
}

// resting returns usage without the gradients of one rank, which frees them at the next step.
func resting(u tensor.Usage, world int) tensor.Usage {
	if world == 1 {
		u.LiveTotal -= u.Live[tensor.Grads]
		u.Live[tensor.Grads] = 0
	}
	return u
}
