package train_test

import (
	"path/filepath"
	"slices"
	"testing"

	"trireme/device"
	"trireme/internal/impl"
	"trireme/parallel"
	"trireme/tensor"
)

// On each instruction set of this processor the golden curve holds, and ranks, threads and strategies give the
// bits of one rank.
func TestInstructionSets(t *testing.T) {
	eachSet(t, func(t *testing.T) {
		for _, name := range []string{"llama-gqa-accum", "gpt2"} {
			g := readGolden(t, filepath.Join("testdata", "golden", name))
			g.compare(t, g.run(t, 1, parallel.Default(), g.Hyperparameters.MicroBatchSize, 1))
			g.Hyperparameters.Steps = 3
			for _, g.precision = range []parallel.Precision{{}, {Param: tensor.BF16}, {Param: tensor.BF16, Reduce: tensor.BF16}} {
				cfg := parallel.Default()
				one := g.run(t, 1, cfg, 1, 1)
				one.equal(t, name+", 3 threads", g.run(t, 1, cfg, 1, 3))
				for _, cfg.Strategy = range []string{"no_shard", "full_shard"} {
					one.equal(t, name+", "+cfg.Strategy+" on 2 ranks", g.run(t, 2, cfg, 1, 1))
				}
			}
		}
	})
}

// With products of bfloat16 parts ranks, threads and strategies give the bits of one rank too, and six products have
// the golden curve.
func TestFloat32Matmul(t *testing.T) {
	if !impl.Tiles() {
		t.Skip("SKIPPED: this processor has no tiles of bfloat16, and computes highest")
	}
	g := readGolden(t, filepath.Join("testdata", "golden", "llama-gqa-accum"))
	cfg := parallel.Default()
	highest := g.run(t, 1, cfg, g.Hyperparameters.MicroBatchSize, 1)
	for _, g.matmul = range []device.Float32Matmul{device.BFloat16x6, device.High} {
		whole := g.run(t, 1, cfg, g.Hyperparameters.MicroBatchSize, 1)
		if slices.Equal(whole.loss, highest.loss) {
			t.Errorf("%s has the losses of highest", g.matmul)
		}
		if g.matmul == device.BFloat16x6 {
			g.compare(t, whole)
		}
		one := g.run(t, 1, cfg, 1, 1)
		one.equal(t, string(g.matmul)+", 3 threads", g.run(t, 1, cfg, 1, 3))
		for _, cfg.Strategy = range []string{"no_shard", "full_shard"} {
			one.equal(t, string(g.matmul)+", "+cfg.Strategy+" on 2 ranks", g.run(t, 2, cfg, 1, 1))
		}
	}
}

// eachSet runs f on each instruction set of this processor; with -short, for the race detector, on the best one, since
// all share the goroutines' code.
func eachSet(t *testing.T, f func(t *testing.T)) {
	if testing.Short() {
		f(t)
		return
	}
	impl.Each(t, func(t *testing.T) {
		if impl.Best() == impl.Generic && len(impl.Available()) > 1 {
			t.Skip("it takes minutes in generic Go, which the tests of operations compare with the others")
		}
		f(t)
	})
}
