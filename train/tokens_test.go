package train_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trireme/data"
	"trireme/model"
	"trireme/model/llama"
	"trireme/planner"
	"trireme/tensor"
	"trireme/train"
)

// Losses, gradient norms and evaluations have the same bits on any number of ranks with any strategy, with
// dropout, and after a resume on other ranks, if the micro-batches of a step are counted in tokens or do not
// divide evenly over the ranks; no rank exceeds its plan.
func TestUnevenMicroBatches(t *testing.T) {
	t.Run("tokens", func(t *testing.T) { testUneven(t, 0, 26) })
	t.Run("rows", func(t *testing.T) { testUneven(t, 2, 0) })
}

func testUneven(t *testing.T, rows, tokens int) {
	j := newResumable(t, true, false)
	base := j.config
	config := strings.Replace(fmt.Sprintf(tinyConfig, true), "{", `{"attention_dropout": 0.2, `, 1)
	if err := os.WriteFile(base.Model.Config, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	base.Training.GlobalBatchSize, base.Training.MicroBatchTokens, base.Training.MaxSteps = 8, tokens, 7
	if rows > 0 {
		base.Training.MicroBatchSize = rows
	}
	run := func(name, strategy, resume string, world int, until int64) *recordingSink {
		c := base
		c.Parallel.Strategy, c.Resume, c.Checkpoint.SaveEveryNSteps, c.OutputDir = strategy, resume, 3, filepath.Join(j.dir, name)
		k := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}, peaks: map[int64]int64{}}
		j.run(t, c, world, until, k)
		return k
	}
	want := run("one", "no_shard", "none", 1, 0)
	if len(want.steps) != 7 || len(want.evals) == 0 {
		t.Fatalf("%d steps, %d evaluations", len(want.steps), len(want.evals))
	}
	same := func(name string, got *recordingSink) {
		t.Helper()
		for step, s := range got.steps {
			if s != want.steps[step] {
				t.Errorf("%s: step %d is %s, on one rank %s", name, step, s, want.steps[step])
			}
		}
		for step, e := range got.evals {
			if e != want.evals[step] {
				t.Errorf("%s: evaluation after step %d is %s, on one rank %s", name, step, e, want.evals[step])
			}
		}
	}
	for _, c := range []struct {
		strategy string
		world    int
	}{{"full_shard", 2}, {"shard_grad_op", 4}, {"hybrid_shard", 4}, {"zero_1", 3}, {"full_shard", 3}, {"no_shard", 5}} {
		name := c.strategy + string(rune('0'+c.world))
		got := run(name, c.strategy, "none", c.world, 0)
		if len(got.steps) != 7 || !maps.Equal(got.evals, want.evals) {
			t.Errorf("%s: %d steps, evaluations %v, want %v", name, len(got.steps), got.evals, want.evals)
		}
		same(name, got)
	}
	run("stopped", "full_shard", "none", 2, 3)
	after := run("resumed", "no_shard", filepath.Join(j.dir, "stopped", "checkpoints", "step-3"), 4, 0)
	if len(after.steps) != 4 {
		t.Errorf("%d steps after the stop", len(after.steps))
	}
	same("resumed", after)

	made, err := model.Registry{llama.Family}.ParseConfig("config.json", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	base.Parallel.Strategy = "no_shard"
	p, err := planner.Job{Config: base, Model: made, Ranks: 1, Positions: base.Data.SequenceLength}.Run(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for step, peak := range want.peaks {
		if most := p.Memory.Peak[tensor.Activations]; peak > most || peak < most/3 {
			t.Errorf("step %d: %d bytes of activations, planned peak %d", step, peak, most)
		}
	}
}

// micro_batch_tokens excludes other keys.
func TestMicroBatchTokensAlone(t *testing.T) {
	for _, change := range []func(*train.Training){
		func(c *train.Training) { c.MicroBatchSize = 2 },
		func(c *train.Training) { c.GradientAccumulationSteps = 4 },
		func(c *train.Training) { c.GlobalBatchSize = 0 },
		func(c *train.Training) { c.MicroBatchTokens = -1 },
	} {
		c := train.Default().Training
		c.MicroBatchTokens, c.GlobalBatchSize = 100, 8
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if err := c.Validate(); err == nil {
			t.Errorf("%d tokens with %d rows, accumulation %d and a global batch of %d are taken", c.MicroBatchTokens, c.MicroBatchSize, c.GradientAccumulationSteps, c.GlobalBatchSize)
		}
	}
	c := train.Default().Training
	c.MicroBatchTokens, c.GlobalBatchSize = 100, 8
	if _, err := c.MaxAccumulation(2, 101); err == nil {
		t.Error("rows of 101 tokens fit in micro-batches of 100")
	}
	for ranks := 1; ranks <= 5; ranks++ { // a rank that has none left runs one that counts for nothing
		all := data.MaxMicroBatches(c.GlobalBatchSize, c.MicroBatchTokens, 40)
		if a, err := c.MaxAccumulation(ranks, 40); err != nil || a*ranks < all || a*ranks >= all+ranks {
			t.Errorf("%d micro-batches on %d ranks: %d each, %v", all, ranks, a, err)
		}
	}
	if a, err := c.MaxAccumulation(2, 40); err != nil || a != 2 {
		t.Errorf("accumulation %d, %v", a, err) // 4 micro-batches of 2 rows
	}
}

// Losses and activation memory depend on the tokens of rows, not on sequence_length.
func TestSequenceLengthCostsNothing(t *testing.T) {
	j := newResumable(t, true, false)
	run := func(name string, length int) *recordingSink {
		c := j.config
		c.Data.SequenceLength, c.OutputDir, c.Training.MicroBatchSize = length, filepath.Join(j.dir, name), 4
		k := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}, peaks: map[int64]int64{}}
		j.run(t, c, 1, 0, k)
		return k
	}
	short, long := run("short", 11), run("long", 16)
	if !maps.Equal(short.steps, long.steps) || !maps.Equal(short.evals, long.evals) || !maps.Equal(short.peaks, long.peaks) {
		t.Errorf("%v and %v bytes with rows of up to 11 tokens, %v and %v of up to 16", short.steps, short.peaks, long.steps, long.peaks)
	}
}
