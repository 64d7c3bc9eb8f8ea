package train_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"trireme/checkpoint"
	"trireme/collective"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
	"trireme/train"
)

// scaler is torch's GradScaler, starting at 2^power.
func scaler(power, positions int) *optim.Scaler {
	return optim.LossScaling{Kind: optim.TorchScaler, InitialScalePower: power}.Scaler(true, positions)
}

// Every family computes in float16 near float32 (rounding is 2^-12 relative, and nothing below 2^-24
// remains), with the same bits in every world.
func TestFamiliesFloat16(t *testing.T) {
	for i, name := range cases {
		if testing.Short() && i%5 != 1 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, filepath.Join("testdata", "golden", name))
			g.precision, g.scaler = parallel.Precision{Param: tensor.F16, Reduce: tensor.F16, Buffer: tensor.F16}, scaler(10, 16)
			h := &g.Hyperparameters
			h.Steps = 2
			cfg := parallel.Default()
			one := g.run(t, 1, cfg, 1, 1)
			for i := range one.loss {
				want := g.Expected[i]
				if !near(one.loss[i], want.Loss, 6e-4) || !near(one.norm[i], want.GradNorm, 4e-3) {
					t.Errorf("step %d: loss %v grad_norm %v, in float32 %v %v", i+1, one.loss[i], one.norm[i], want.Loss, want.GradNorm)
				}
			}
			one.equal(t, "3 threads", g.run(t, 1, cfg, 1, 3))
			for strategy, world := range map[string]int{"zero_1": 2, "full_shard": 4} {
				if h.GradientAccumulationSteps*h.MicroBatchSize%world == 0 {
					cfg.Strategy = strategy
					one.equal(t, fmt.Sprintf("%s on %d ranks", strategy, world), g.run(t, world, cfg, 1, 1))
				}
			}
			g.recompute.Enabled = true
			one.equal(t, "recomputed", g.run(t, 1, cfg, 1, 1))
		})
	}
}

// A loss scale changes no bit in float32.
func TestScaleLeavesBits(t *testing.T) {
	oneGoroutine(t)
	for _, name := range []string{"llama-gqa-accum", "bert-cls"} {
		g := readGolden(t, filepath.Join("testdata", "golden", name))
		g.Hyperparameters.Steps = 3
		plain := g.run(t, 1, parallel.Default(), 1, 1)
		for _, power := range []int{0, 16} {
			g.scaler = scaler(power, 16)
			plain.equal(t, fmt.Sprintf("%s, scaled by 2^%d", name, power), g.run(t, 1, parallel.Default(), 1, 1))
		}
	}
}

// The reference run stays near float32.
func TestGoldenFloat16(t *testing.T) {
	oneGoroutine(t)
	for _, name := range []string{"llama-mha", "llama-gqa-accum", "gpt2"} {
		g := readGolden(t, filepath.Join("testdata", "golden", name))
		g.precision, g.scaler = parallel.Precision{Param: tensor.F16}, scaler(10, 16)
		r := g.run(t, 1, parallel.Default(), g.Hyperparameters.MicroBatchSize, 1)
		for i, want := range g.Expected {
			if !near(r.loss[i], want.Loss, 1e-4) || !near(r.norm[i], want.GradNorm, 2e-3) || r.lr[i] != want.LR {
				t.Errorf("%s, step %d: loss %v grad_norm %v, in float32 %v %v", name, want.Step, r.loss[i], r.norm[i], want.Loss, want.GradNorm)
			}
		}
	}
}

// A scale of 2^30 overflows, falls (DeepSpeed's at every overflow after its hysteresis), grows and
// overflows again. Overflows count neither for max_skipped_steps nor for the schedule. All worlds agree,
// and a run resumes with the same bits and scales at any step.
func TestLossScaleInRuns(t *testing.T) {
	for kind, first := range map[optim.ScalerKind]float64{optim.TorchScaler: 1 << 30, optim.DeepSpeedScaler: 1 << 30} {
		j := newResumable(t, true, false)
		c := &j.config
		c.Training.MaxSteps, c.Training.MaxSkippedSteps, c.Training.EvalEveryNSteps = 24, 0, 8
		c.Precision = train.Precision{ParamDType: "float16", ReduceDType: "float16", BufferDType: "float32",
			LossScaling: optim.LossScaling{Kind: kind, InitialScalePower: 30, GrowthInterval: 3}}
		run := func(name, strategy, resume string, world int, until int64) *recordingSink {
			c := j.config
			c.OutputDir, c.Parallel.Strategy, c.Resume = filepath.Join(j.dir, name), strategy, resume
			c.Checkpoint.SaveEveryNSteps = 1
			c.Checkpoint.KeepLastN = 100
			k := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}, scales: map[int64]float64{}}
			j.run(t, c, world, until, k)
			return k
		}
		one := run("one", "no_shard", "none", 1, 0)
		if got := one.scales[1]; got != -first {
			t.Errorf("%s: step 1 is at %v", kind, got)
		}
		var fell, grew, spent int
		for s := int64(2); s <= 24; s++ {
			switch now, was := math.Abs(one.scales[s]), math.Abs(one.scales[s-1]); {
			case now < was:
				fell++
			case now > was:
				grew++
			case one.scales[s-1] < 0:
				spent++ // a step was skipped at no change of the scale
			}
		}
		if fell < 5 || grew < 1 || one.skips < 6 || one.skips > 20 || (kind == optim.DeepSpeedScaler) != (spent > 0) {
			t.Errorf("%s: scales %v", kind, one.scales)
		}
		for strategy, world := range map[string]int{"full_shard": 4, "zero_1": 2} {
			many := run(strategy, strategy, "none", world, 0)
			if !maps.Equal(one.steps, many.steps) || !maps.Equal(one.evals, many.evals) || !maps.Equal(one.scales, many.scales) {
				t.Errorf("%s, %s: %v, on one rank %v", kind, strategy, many, one)
			}
		}
		final := func(name string) map[string]string {
			return state(t, filepath.Join(j.dir, name, "checkpoints", "step-24"))
		}
		for _, at := range []int{1, 2, 9, 17, 20, 22} {
			if testing.Short() && at != 9 {
				continue
			}
			name := fmt.Sprint("from", at)
			rest := run(name, "full_shard", filepath.Join(j.dir, "one", "checkpoints", fmt.Sprint("step-", at)), 2, 0)
			for s := int64(at) + 1; s <= 24; s++ {
				if rest.steps[s] != one.steps[s] || rest.scales[s] != one.scales[s] {
					t.Errorf("%s: resumed after %d, step %d is %s at %v, and was %s at %v", kind, at, s, rest.steps[s], rest.scales[s], one.steps[s], one.scales[s])
				}
			}
			if !maps.Equal(final(name), final("one")) {
				t.Errorf("%s: resumed after %d, the state differs", kind, at)
			}
		}
	}
}

// A step counts for max_skipped_steps if its loss is not finite, or if it overflows at the minimum scale.
func TestNotTheScale(t *testing.T) {
	for name, p := range map[string]optim.LossScaling{
		"a static scale": {Kind: optim.StaticScaler, LossScale: 1 << 40},
		"a least scale":  {Kind: optim.TorchScaler, InitialScalePower: 40, MinScale: 1 << 40},
	} {
		j := newResumable(t, true, false)
		c := j.config
		c.Training.MaxSkippedSteps = 1
		c.Precision.ParamDType, c.Precision.LossScaling = "float16", p
		k := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
		if err := j.attempt(t, c, k); !errors.Is(err, train.ErrNotFinite) || len(k.steps) != 2 {
			t.Errorf("%s: %d steps, then %v", name, len(k.steps), err)
		}
	}
	j := newResumable(t, false, true)
	c := j.config
	c.Training.MaxSkippedSteps = 0
	c.Precision.LossScaling = optim.LossScaling{Kind: optim.TorchScaler, InitialScalePower: 16}
	k := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
	if err := j.attempt(t, c, k); !errors.Is(err, train.ErrNotFinite) || k.skips != 1 {
		t.Errorf("%d steps are skipped, then %v", k.skips, err)
	}
}

// attempt trains on one rank until the run ends or fails.
func (j *resumable) attempt(t *testing.T, c train.Config, into *recordingSink) error {
	t.Helper()
	worlds, err := collective.NewLocal(1, collective.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer worlds[0].Close()
	r, err := train.Open(context.Background(), c, train.Deps{
		Registry: families, World: worlds[0], ProcessGroup: checkpoint.SingleProcess{}, LocalRanks: 1, Sink: into.sink,
	})
	if err != nil {
		return err
	}
	return errors.Join(r.Train(context.Background()), r.Close())
}

// Steps enqueued before earlier results are read, some of them skipped, have the bits, learning rates and
// scales of steps read at once.
func TestLateResults(t *testing.T) {
	g := readGolden(t, filepath.Join("testdata", "golden", "llama-gqa-accum"))
	g.precision, g.Hyperparameters.Steps = parallel.Precision{Param: tensor.F16, Reduce: tensor.F16}, 8
	g.scaler = optim.LossScaling{Kind: optim.TorchScaler, InitialScalePower: 24, GrowthInterval: 2}.Scaler(true, 16)
	g.skips = true
	var first *result
	for g.late = range optim.MaxInFlight {
		got := g.run(t, 2, parallel.Default(), 1, 1)
		if first == nil {
			if first = got; first.scales[1] >= first.scales[0] || slices.Max(first.scales[3:]) <= slices.Min(first.scales) || first.lr[1] != first.lr[0] {
				t.Errorf("no step was skipped, or all: scales %v, learning rates %v", got.scales, got.lr)
			}
			continue
		}
		first.equal(t, fmt.Sprintf("%d steps late", g.late), got)
		if !slices.Equal(got.lr, first.lr) || !slices.Equal(got.scales, first.scales) {
			t.Errorf("%d steps late: learning rates %v at scales %v, want %v at %v", g.late, got.lr, got.scales, first.lr, first.scales)
		}
	}
}
