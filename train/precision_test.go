package train_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"trireme/parallel"
	"trireme/tensor"
	"trireme/train"
)

var mixed = []parallel.Precision{
	{Param: tensor.BF16},
	{Param: tensor.BF16, Reduce: tensor.BF16, Buffer: tensor.BF16},
	{Reduce: tensor.BF16},
	{Param: tensor.F16, Reduce: tensor.F16},
}

// In 16 bits every strategy, number of ranks and number of threads gives the bits of one rank. FULL_MATRIX=1 runs each
// precision with all strategies on all numbers of ranks; else each pair of these occurs.
func TestSameBitsMixed(t *testing.T) {
	g := readGolden(t, filepath.Join("testdata", "golden", "llama-gqa-accum"))
	g.Hyperparameters.Steps = 3
	for i, precision := range mixed {
		g.precision, g.scaler = precision, nil
		if g.precision.Param == tensor.F16 {
			g.scaler = scaler(10, 16)
		}
		cfg := parallel.Default()
		one := g.run(t, 1, cfg, 1, 1)
		one.equal(t, fmt.Sprintf("%v, 3 threads", g.precision), g.run(t, 1, cfg, 1, 3))
		for j, world := range []int{2, 4, 8} {
			for k, strategy := range []string{"no_shard", "zero_1", "shard_grad_op", "full_shard", "hybrid_shard", "hybrid_shard_zero2"} {
				if !crossAll() && (i+k)%3 != j || testing.Short() && (i+k/3)%2 > 0 {
					continue
				}
				cfg.Strategy = strategy
				one.equal(t, fmt.Sprintf("%v, %s on %d ranks", g.precision, strategy, world), g.run(t, world, cfg, 1, 1))
			}
		}
	}
}

// Every family computes in bfloat16 near float32 (rounding is 2^-9 relative; classifier losses are means
// over few rows), with the same bits in every world.
func TestFamiliesMixed(t *testing.T) {
	oneGoroutine(t)
	for _, name := range cases {
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, filepath.Join("testdata", "golden", name))
			g.precision = parallel.Precision{Param: tensor.BF16}
			h := &g.Hyperparameters
			h.Steps = 2
			cfg := parallel.Default()
			one := g.run(t, 1, cfg, 1, 1)
			for i := range one.loss {
				if want := g.Expected[i]; !near(one.loss[i], want.Loss, 3e-3) || !near(one.norm[i], want.GradNorm, 2e-2) {
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
		})
	}
}

// The Free Transformer draws the same bits in every world in bfloat16 too.
func TestLatentBitsMixed(t *testing.T) {
	for _, mode := range []string{"exact", "factored"} {
		j := newResumable(t, false, false)
		config := filepath.Join(j.dir, "latent.json")
		if err := os.WriteFile(config, fmt.Appendf(nil, latentConfig, 6, mode), 0o644); err != nil {
			t.Fatal(err)
		}
		run := func(name string, world int, recompute bool) *recordingSink {
			c := j.config
			c.Model.Config, c.Training.MaxSteps, c.Precision.ParamDType = config, 4, "bfloat16"
			c.OutputDir, c.Parallel.Strategy, c.Recompute.Enabled = filepath.Join(j.dir, name), name, recompute
			out := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
			j.run(t, c, world, 0, out)
			return out
		}
		one, zero, full := run("no_shard", 1, false), run("zero_1", 2, false), run("full_shard", 4, true)
		if !maps.Equal(one.steps, zero.steps) || !maps.Equal(one.steps, full.steps) || !maps.Equal(one.evals, zero.evals) || !maps.Equal(one.evals, full.evals) {
			t.Errorf("%s: %v, on 2 ranks %v, recomputed on 4 %v", mode, one, zero, full)
		}
	}
}

// A run resumes from float32 in bfloat16 and back, with the same bits in every world and no loss in the
// checkpoint.
func TestResumeInBFloat16(t *testing.T) {
	j := newResumable(t, true, false)
	half := train.Precision{ParamDType: "bfloat16", ReduceDType: "bfloat16", BufferDType: "float32"}
	whole := j.config.Precision
	run := func(name, resume string, p train.Precision, strategy string, world int, until int64) (*recordingSink, map[string]string) {
		c := j.config
		c.OutputDir, c.Resume, c.Precision, c.Parallel.Strategy = filepath.Join(j.dir, name), resume, p, strategy
		c.Checkpoint.SaveEveryNSteps = int(until)
		k := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
		j.run(t, c, world, until, k)
		return k, state(t, filepath.Join(c.OutputDir, "checkpoints", fmt.Sprintf("step-%d", until)))
	}
	saved := func(name string, step int) string {
		return filepath.Join(j.dir, name, "checkpoints", fmt.Sprintf("step-%d", step))
	}
	run("float32", "none", whole, "full_shard", 2, 4)
	one, oneState := run("one", saved("float32", 4), half, "no_shard", 1, 8)
	for strategy, world := range map[string]int{"full_shard": 4, "zero_1": 2} {
		many, manyState := run(strategy, saved("float32", 4), half, strategy, world, 8)
		if !maps.Equal(one.steps, many.steps) || !maps.Equal(one.evals, many.evals) {
			t.Errorf("%s: %v, on one rank %v", strategy, many, one)
		}
		if !maps.Equal(oneState, manyState) {
			t.Errorf("%s: the state differs from that of one rank", strategy)
		}
	}
	back, _ := run("back", saved("one", 8), whole, "full_shard", 2, 11)
	if len(one.steps) != 4 || len(back.steps) != 3 {
		t.Errorf("%d and %d steps", len(one.steps), len(back.steps))
	}
}

// Recomputation in 16 bits gives the same bits.
func TestRecomputedBits(t *testing.T) {
	for _, precision := range mixed {
		g := readGolden(t, filepath.Join("testdata", "golden", "llama-gqa-accum"))
		g.Hyperparameters.Steps, g.precision = 3, precision
		if precision.Param == tensor.F16 {
			g.scaler = scaler(10, 16)
		}
		kept := g.run(t, 1, parallel.Default(), 1, 1)
		g.recompute.Enabled = true
		again := g.run(t, 2, parallel.Default(), 1, 1)
		kept.equal(t, fmt.Sprintf("%v, recomputed", precision), again)
		if most := kept.memory.Peak[tensor.Activations]; again.memory.Peak[tensor.Activations] > most*3/4 {
			t.Errorf("%v: %d bytes of activations with recomputation, %d without", precision, again.memory.Peak[tensor.Activations], most)
		}
	}
}

// Rotary tables in bfloat16 take half the memory, and losses stay near.
func TestCastBuffers(t *testing.T) {
	oneGoroutine(t)
	g := readGolden(t, filepath.Join("testdata", "golden", "llama-gqa-accum"))
	g.Hyperparameters.Steps = 2
	wide := g.run(t, 1, parallel.Default(), 2, 1)
	g.precision.Buffer = tensor.BF16
	narrow := g.run(t, 1, parallel.Default(), 2, 1)
	angles := int64(2 * g.Hyperparameters.SequenceLength * 96 / 6 / 2)
	if got := wide.memory.Live[tensor.Workspace] - narrow.memory.Live[tensor.Workspace]; got != 2*angles {
		t.Errorf("%d bytes are saved of %d angles", got, angles)
	}
	for i := range wide.loss {
		if wide.loss[i] == narrow.loss[i] || !near(narrow.loss[i], wide.loss[i], 1e-3) {
			t.Errorf("step %d: loss %v, with wide tables %v", i+1, narrow.loss[i], wide.loss[i])
		}
	}
}

// Reference runs of PyTorch in 16 bits with float32 masters (testdata/golden/mixed.py). Products are
// rounded to 8 bits (2^-9 relative) in bfloat16 and 11 in float16 at each operation. PyTorch rounds more
// often (scores, probabilities, logits, weight gradients), so two runs agree only to the distance of each
// from float32. PyTorch's is up to 1.4e-4 of the loss (1.1e-3 for the classifier, whose loss is over 4
// rows) and 5.2e-3 of the gradient norm in bfloat16, and 5e-5 (2.5e-4) and 7.9e-4 in float16. Tolerances
// are twice that, three times with 16-bit reduction. To catch bugs within the tolerance, the distance
// from float32 over all steps is also limited to a multiple of PyTorch's; losses that agree to six digits
// do so by chance.
func TestGoldenMixed(t *testing.T) {
	oneGoroutine(t)
	eachSet(t, goldenMixed)
}

func goldenMixed(t *testing.T) {
	for _, kind := range []struct {
		file                string
		p                   parallel.Precision
		loss, classes, norm float64 // tolerances
		tolerance           float64
	}{
		{"bf16", parallel.Precision{Param: tensor.BF16}, 3e-4, 2.2e-3, 1e-2, 2},
		{"bf16", parallel.Precision{Param: tensor.BF16, Reduce: tensor.BF16}, 3e-4, 2.2e-3, 1.5e-2, 2.5},
		{"f16", parallel.Precision{Param: tensor.F16}, 1e-4, 5e-4, 1.6e-3, 4},
		{"f16", parallel.Precision{Param: tensor.F16, Reduce: tensor.F16}, 1e-4, 5e-4, 2.4e-3, 4},
	} {
		for _, name := range []string{"llama-mha", "llama-gqa-accum", "qwen2", "gpt2", "bert-cls"} {
			t.Run(fmt.Sprintf("%s reduced in %v, %s", kind.file, kind.p.Reduce, name), func(t *testing.T) {
				g := readGolden(t, filepath.Join("testdata", "golden", name))
				whole := slices.Clone(g.Expected)
				data, err := os.ReadFile(filepath.Join(g.dir, kind.file+".json"))
				if err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(data, g); err != nil {
					t.Fatal(err)
				}
				h, loss := &g.Hyperparameters, kind.loss
				if name == "bert-cls" {
					loss = kind.classes
				}
				if g.precision = kind.p; kind.p.Param == tensor.F16 {
					g.scaler = scaler(10, h.MicroBatchSize*h.SequenceLength)
				}
				r := g.run(t, 1, parallel.Default(), h.MicroBatchSize, 1)
				var ours, theirs [2]float64 // squared distance from float32
				for i, want := range g.Expected {
					if !near(r.loss[i], want.Loss, loss) {
						t.Errorf("step %d: loss %v, want %v", want.Step, r.loss[i], want.Loss)
					}
					if !near(r.norm[i], want.GradNorm, kind.norm) {
						t.Errorf("step %d: grad_norm %v, want %v", want.Step, r.norm[i], want.GradNorm)
					}
					if r.lr[i] != want.LR {
						t.Errorf("step %d: lr %v, want %v", want.Step, r.lr[i], want.LR)
					}
					w := whole[i]
					for k, v := range [][3]float64{{r.loss[i], want.Loss, w.Loss}, {r.norm[i], want.GradNorm, w.GradNorm}} {
						ours[k] += math.Pow((v[0]-v[2])/v[2], 2)
						theirs[k] += math.Pow((v[1]-v[2])/v[2], 2)
					}
				}
				for k, what := range []string{"loss", "grad_norm"} {
					if a, b := math.Sqrt(ours[k]), math.Sqrt(theirs[k]); a > kind.tolerance*b {
						t.Errorf("%s is %.2g from float32 over all steps, PyTorch's %.2g", what, a, b)
					}
				}
			})
		}
	}
}
