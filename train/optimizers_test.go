package train_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"trireme/optim"
	"trireme/parallel"
)

// curves are losses per optimizer from testdata/golden/optimizers.py.
type curves struct {
	Case        string
	WeightDecay float64 `json:"weight_decay"`
	Runs        []struct {
		Optimizer optim.Config
		LR        float64
		Losses    []float64
	}
}

// each runs f for each curve and its case.
func (c *curves) each(t *testing.T, f func(t *testing.T, g *golden, losses []float64)) {
	t.Helper()
	data, err := os.ReadFile("testdata/golden/optimizers.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, c); err != nil {
		t.Fatal(err)
	}
	for _, r := range c.Runs {
		t.Run(fmt.Sprint(r.Optimizer), func(t *testing.T) {
			g := readGolden(t, filepath.Join("testdata", "golden", c.Case))
			if g.optimizer, err = r.Optimizer.Make(optim.AdamDefaults{Betas: g.Hyperparameters.Betas, Eps: g.Hyperparameters.Eps}); err != nil {
				t.Fatal(err)
			}
			h := &g.Hyperparameters
			h.LR, h.Schedule, h.WarmupSteps, h.Steps, h.WeightDecay = r.LR, "constant", 0, len(r.Losses), c.WeightDecay
			f(t, g, r.Losses)
		})
	}
}

// The losses of each optimizer match its reference implementation.
func TestOptimizers(t *testing.T) {
	oneGoroutine(t)
	new(curves).each(t, func(t *testing.T, g *golden, losses []float64) {
		tolerance := 1e-4
		switch g.optimizer.(type) {
		case optim.LowBit:
			tolerance = 1e-3 // state near the middle of two numbers goes to the other one now and then
		case optim.Muon:
			tolerance = 1e-3 // its products are bfloat16; in float32 losses are as far from these
		}
		r := g.run(t, 1, parallel.Default(), g.Hyperparameters.MicroBatchSize, 1)
		for i, want := range losses {
			if !near(r.loss[i], want, tolerance) {
				t.Errorf("step %d: loss %v, want %v", i+1, r.loss[i], want)
			}
		}
	})
}

// Every optimizer, with and without an average of the weights, has the bits of one rank under any
// sharding and with state in files.
func TestSameBitsOfOptimizers(t *testing.T) {
	new(curves).each(t, func(t *testing.T, g *golden, _ []float64) {
		g.Hyperparameters.Steps = 3
		cfg := parallel.Default()
		one := g.run(t, 1, cfg, 1, 1)
		g.optimizer = optim.Averaged{Optimizer: g.optimizer, EMA: optim.EMA{Decay: 0.9}}
		one.equal(t, "3 threads, with an average", g.run(t, 1, cfg, 1, 3))
		for _, strategy := range []string{"no_shard", "zero_1", "full_shard", "hybrid_shard"} {
			cfg.Strategy = strategy
			one.equal(t, strategy+" on 4 ranks", g.run(t, 4, cfg, 1, 1))
		}
		g.offload = parallel.DefaultOffload()
		g.offload.Optimizer.Device, g.offload.Optimizer.SubGroupSize = parallel.OffloadNVMe, 1
		g.offload = g.offload.WithDir(t.TempDir())
		one.equal(t, "state in files", g.run(t, 2, cfg, 1, 1))
	})
}
