package train_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"trireme/checkpoint"
	"trireme/data"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
	"trireme/train"
)

// TestRecordedOptions is TestRecordedStep for other options.
func TestRecordedOptions(t *testing.T) {
	for name, change := range map[string]func(c *train.Config){
		"sgd": func(c *train.Config) {
			c.Training.Optimizer = optim.Config{"name": "sgd", "momentum": 0.9, "nesterov": true}
		},
		"8-bit state, an average": func(c *train.Config) {
			c.Training.Optimizer, c.Training.EMA.Decay = optim.Config{"name": "adamw_8bit", "min_8bit_size": 0.0}, 0.9
		},
		"groups": func(c *train.Config) {
			half := 0.5
			c.Training.ParameterGroups = []optim.GroupConfig{{Match: "*norm*", LRFactor: &half, Optimizer: optim.Config{"name": "lion"}}}
		},
		"muon":        func(c *train.Config) { c.Training.Optimizer = optim.Config{"name": "muon"} },
		"adafactor":   func(c *train.Config) { c.Training.Optimizer = optim.Config{"name": "adafactor"} },
		"lamb":        func(c *train.Config) { c.Training.Optimizer = optim.Config{"name": "lamb"} },
		"frozen":      func(c *train.Config) { c.Model.Freeze = []string{"model.embed_tokens.weight"} },
		"local":       func(c *train.Config) { c.Parallel.WorldInvariant = false },
		"kept":        func(c *train.Config) { c.Parallel.ReshardAfterForward = parallel.ReshardNever },
		"kept by two": func(c *train.Config) { c.Parallel.ReshardAfterForward = 2 },
		"reduced in bfloat16": func(c *train.Config) {
			c.Precision.ReduceDType, c.Parallel.WorldInvariant = "bfloat16", false
		},
	} {
		for i, strategy := range []string{"no_shard", "zero_1", "full_shard", "hybrid_shard"} {
			if testing.Short() && strategy != "full_shard" { // TestRecordedStep has the goroutines of all
				continue
			}
			c := recordedCase{recordedTask: recordedTasks[1], world: 4, accum: 4, config: train.Default()}
			c.config.Parallel.Strategy = strategy
			c.config.Training.MicroBatchSize = recordedRows
			c.config.Recompute = train.Recompute{Enabled: i%2 == 0, EveryNLayers: 2, Part: "layer", Store: "memory"}
			change(&c.config)
			t.Run(name+"/"+strategy, c.test)
		}
	}
}

// An evaluation pass is the same programs on every rank, one for all micro-batches of the same shapes, and
// replays, rolled for every other task, to the sums of direct execution.
func TestRecordedEvaluation(t *testing.T) {
	uneven := recordedTasks[1]
	uneven.uneven = true
	for i, task := range append(slices.Clone(recordedTasks), uneven) {
		c := recordedCase{recordedTask: task, world: 2, accum: 3, config: train.Default()}
		c.config.Parallel.Strategy = "full_shard"
		direct, recorded := c.open(t, false), c.open(t, true)
		evaluate := func(k *recordedRank, rank int) error {
			return k.Stepper.Evaluate(context.Background(), func(yield func(*data.MicroBatch, error) bool) {
				for i := range c.accum {
					if m := c.micro(0, i*c.world+rank); !yield(&m, nil) {
						return
					}
				}
			})
		}
		recs := c.record(t, recorded, evaluate)
		for r := range recs {
			if diff := sameTexts(recs[0], recs[r]); diff != "" {
				t.Fatalf("%s, rank %d: %s", task.name, r, diff)
			}
		}
		if n := distinct(recs[0]); len(recs[0]) != c.accum+2 || n != 3 && !c.uneven {
			t.Errorf("%s: %d micro-batches are %d programs, %d of them distinct", task.name, c.accum, len(recs[0]), n)
		}
		if err := errors.Join(append(c.each(direct, func(r int) error { return evaluate(direct[r], r) }), c.each(recorded, func(r int) error {
			return recorded[r].replay(recs[0], recs[r], i%2 == 1)
		})...)...); err != nil {
			t.Fatal(err)
		}
		for r := range recs {
			_, want := direct[r].state(t)
			if _, got := recorded[r].state(t); !reflect.DeepEqual(got, want) {
				t.Errorf("%s, rank %d: replayed %+v, directly %+v", task.name, r, got, want)
			}
		}
	}
}

// Steps of any length and label count need few programs, and padding changes no bit, also without label
// rows.
func TestRecordedBuckets(t *testing.T) {
	c := recordedCase{recordedTask: recordedTasks[1], world: 1, accum: 1, config: train.Default()}
	k := c.open(t, true)[0]
	programs := map[string]bool{}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 60 {
		c.counted, c.tokens = rng.Float64(), 2+rng.IntN(recordedRows*recordedPositions-1)
		step := c.record(t, []*recordedRank{k}, func(k *recordedRank, _ int) error { return c.step(k, 0, rng.IntN(100)) })[0]
		if err := k.replay(step, step, i%2 == 1); err != nil {
			t.Fatal(err)
		}
		k.Stepper.Result()
		for _, p := range step {
			programs[p.String()] = true
		}
	}
	if len(programs) < 2 || len(programs) > 14 { // up to 48 tokens there are 4 lengths and full rows, and no more labels than tokens
		t.Errorf("60 steps are %d programs", len(programs))
	}
	c = recordedCase{recordedTask: recordedTasks[1], world: 2, accum: 2, config: train.Default()}
	c.counted, c.tokens = 0.02, 33
	t.Run("few labels", c.test)
}

// Ranks with different numbers of tokens, rows and labels run one program.
func TestRecordedUneven(t *testing.T) {
	for _, task := range recordedTasks {
		for i, strategy := range []string{"no_shard", "full_shard"} {
			c := recordedCase{recordedTask: task, world: 4, accum: 1 + i, config: train.Default()}
			c.config.Parallel.Strategy, c.uneven = strategy, true
			t.Run(task.name+"/"+strategy, c.test)
		}
	}
}

// A checkpoint from a backend without host memory loads on one with it, and vice versa, with equal bits.
func TestRecordedCheckpoint(t *testing.T) {
	c := recordedCase{recordedTask: recordedTasks[1], world: 1, accum: 1, config: train.Default()}
	for _, saves := range []bool{true, false} {
		from, to, dir := c.open(t, saves)[0], c.open(t, !saves)[0], t.TempDir()
		for _, p := range from.Engine.HeldParams() { // values that Init does not give
			from.b.Fill(p.Data, float64(p.Data.Elems()))
		}
		save, err := checkpoint.NewStore(dir, "a-run", checkpoint.Config{}, checkpoint.SingleProcess{}, from.b)
		if err != nil {
			t.Fatal(err)
		}
		saved, err := save.Save(context.Background(), checkpoint.Meta{Step: 1, State: []byte("{}")}, from.Engine.State())
		if err != nil {
			t.Fatal(err)
		}
		load, err := checkpoint.NewStore(dir, "a-run", checkpoint.Config{}, checkpoint.SingleProcess{}, to.b)
		if err != nil {
			t.Fatal(err)
		}
		if err := load.Load(context.Background(), saved.Path, to.Engine.State()); err != nil {
			t.Fatal(err)
		}
		for i, item := range to.Engine.State() {
			read := func(k *recordedRank, x *tensor.Tensor) []byte {
				out := make([]byte, x.Bytes())
				k.b.Download(out, x)
				return out
			}
			if !bytes.Equal(read(to, item.Data), read(from, from.Engine.State()[i].Data)) {
				t.Errorf("%s %s has other bits", item.Kind, item.Name)
			}
		}
	}
}
