package planner_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"trireme/collective"
	"trireme/collective/collectivetest"
	"trireme/data"
	"trireme/device"
	"trireme/model"
	"trireme/model/bert"
	"trireme/model/freetransformer"
	"trireme/model/gpt2"
	"trireme/model/llama"
	"trireme/optim"
	"trireme/parallel"
	"trireme/planner"
	"trireme/tensor"
	"trireme/train"
)

var families = model.Registry{llama.Family, gpt2.Family, bert.Family, freetransformer.Family}

// networks have sizes that are no multiple of a block.
var networks = map[string]string{
	"llama": `{"architectures": ["LlamaForCausalLM"], "vocab_size": 61, "hidden_size": 24, "intermediate_size": 37, "num_hidden_layers": 4,
		"num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 32}`,
	"llama, tied, biased": `{"architectures": ["LlamaForCausalLM"], "vocab_size": 61, "hidden_size": 24, "intermediate_size": 37, "num_hidden_layers": 4,
		"num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 32, "tie_word_embeddings": true, "attention_bias": true}`,
	"gpt2": `{"architectures": ["GPT2LMHeadModel"], "vocab_size": 61, "n_embd": 20, "n_layer": 3, "n_head": 4, "n_positions": 32}`,
	"bert classifier": `{"architectures": ["BertForSequenceClassification"], "vocab_size": 61, "hidden_size": 20, "intermediate_size": 28,
		"num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 32, "num_labels": 3}`,
	"bert": `{"architectures": ["BertForMaskedLM"], "vocab_size": 61, "hidden_size": 20, "intermediate_size": 28,
		"num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 32}`,
	"free transformer": `{"architectures": ["FreeTransformerForCausalLM"], "vocab_size": 61, "hidden_size": 16, "intermediate_size": 28,
		"num_hidden_layers": 4, "num_attention_heads": 4, "max_position_embeddings": 32, "latent_bits": 5}`,
}

func network(t testing.TB, name string) *model.Config {
	t.Helper()
	c, err := families.ParseConfig(name, []byte(networks[name]))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func rowsOf(name string, documents bool) data.Info {
	bidirectional := strings.HasPrefix(name, "bert")
	return data.Info{Docs: documents || bidirectional, Classes: name == "bert classifier", Types: bidirectional && documents}
}

// measure runs steps of a job on the cpu, all ranks in this process, and reads the meters.
func measure(t *testing.T, j planner.Job, steps int) []tensor.Usage {
	t.Helper()
	use := make([]tensor.Usage, j.Ranks)
	collectivetest.Ranks(t, j.Ranks, func(w collective.World) error { return measureRank(w, j, steps, &use[w.Rank()]) })
	return use
}

func measureRank(w collective.World, j planner.Job, steps int, use *tensor.Usage) (err error) {
	b, err := device.Open("cpu", device.Options{Threads: 2, Reserve: 1 << 32})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	a, err := j.Config.Build(b, j.Model, j.Positions, train.Ranks{Ranks: w, Local: j.Local}, true)
	if err != nil {
		return err
	}
	defer a.Engine.Close()
	defer func() { err = errors.Join(err, a.Stepper.Close()) }()
	if err := a.Engine.Init(1); err != nil {
		return err
	}
	if err := a.Engine.Refresh(context.Background()); err != nil {
		return err
	}
	accumulation, err := j.Config.Training.Accumulation(w.Size())
	if err != nil {
		return err
	}
	if steps > 0 {
		b.Meter().ResetPeak()
	}
	rng := rand.New(rand.NewPCG(1, uint64(w.Rank())))
	for range steps {
		var micros []data.MicroBatch
		for range accumulation {
			micros = append(micros, draw(j, rng))
		}
		if err := a.Stepper.Step(context.Background(), micros, func(int) float64 { return 1e-3 }); err != nil {
			return err
		}
		a.Stepper.Result()
	}
	if err := a.Engine.Sync(); err != nil {
		return err
	}
	*use = b.Meter().Read()
	return nil
}

// draw returns a micro-batch of random tokens, with documents of a third of a row if enabled.
func draw(j planner.Job, rng *rand.Rand) data.MicroBatch {
	rows := j.Config.Training.MicroBatchSize
	m := data.UniformMicroBatch(rows, rows*j.Positions, j.Positions, j.Rows)
	some := rng.IntN(2) == 0 // rows without a target cost what others do
	for i := range m.InputIDs {
		m.InputIDs[i], m.Targets[i] = rng.Int32N(61), rng.Int32N(61)
		if some && i%3 > 0 {
			m.Targets[i] = data.Ignored
		}
		if m.Docs != nil {
			m.Docs[i], m.Positions[i] = int32(i%j.Positions/3), int32(i%j.Positions%3)
		}
		if m.Types != nil {
			m.Types[i] = rng.Int32N(2)
		}
	}
	for i := range m.Classes {
		m.Classes[i] = rng.Int32N(3)
	}
	return m
}

func strategiesOf(world int) []string {
	if world == 1 {
		return []string{"no_shard", "full_shard"}
	}
	return []string{"no_shard", "zero_1", "shard_grad_op", "full_shard", "hybrid_shard", "hybrid_shard_zero2"}
}

func same(t *testing.T, what string, want, got tensor.Usage) {
	t.Helper()
	for c := range tensor.NumCategories {
		if got.Live[c] != want.Live[c] || got.Peak[c] != want.Peak[c] || got.AtPeak[c] != want.AtPeak[c] {
			t.Errorf("%s: %v: planned %d between steps, %d at the total peak, peak %d; measured %d, %d and %d",
				what, c, want.Live[c], want.AtPeak[c], want.Peak[c], got.Live[c], got.AtPeak[c], got.Peak[c])
		}
	}
	if got.PeakTotal != want.PeakTotal || got.LiveTotal != want.LiveTotal {
		t.Errorf("%s: planned total peak %d and %d between steps, measured %d and %d", what, want.PeakTotal, want.LiveTotal, got.PeakTotal, got.LiveTotal)
	}
}

var recomputations = []train.Recompute{
	{Enabled: true}, {Enabled: true, EveryNLayers: 2}, {Enabled: true, Part: "attention"}, {Enabled: true, Part: "mlp"}, {Enabled: true, Part: "attention_and_mlp"},
	{Enabled: true, Store: "disk"}, {Enabled: true, Segments: 3, Nested: true, Store: "disk"},
	{Enabled: true, Keep: "attention"}, {Enabled: true, Keep: "products"}, {Enabled: true, Segments: train.SqrtSegments},
	{Enabled: true, Segments: 2, Nested: true}, {Enabled: true, Segments: 3, Nested: true, Part: "mlp", Keep: "products"},
}

// gatherings change prefetch and resharding. Reshard groups that do not divide the shards are skipped.
var gatherings = []func(*parallel.Config){
	func(*parallel.Config) {},
	func(c *parallel.Config) { c.ReshardAfterForward = parallel.ReshardNever },
	func(c *parallel.Config) { c.PrefetchUnits = 3 },
	func(c *parallel.Config) { c.ReshardAfterForward = 2 },
	func(c *parallel.Config) { c.PrefetchUnits = 0 },
}

// optimizers have every form of state.
var optimizers = []optim.Config{
	{"name": "adamw"}, {"name": "muon"}, {"name": "sgd"}, {"name": "lamb"}, {"name": "adamw_8bit", "min_8bit_size": 100.0},
	{"name": "adafactor"}, {"name": "adamw"}, {"name": "adafactor", "beta1": 0.9}, {"name": "sgd", "momentum": 0.9}, {"name": "lion"}, {"name": "adamw_bf16"},
}

// The plan equals a run's meter, byte for byte, in every category on every rank.
func TestPlanIsMeasured(t *testing.T) {
	variant := 0
	for _, name := range slices.Sorted(maps.Keys(networks)) {
		worlds := []int{1, 2, 4}
		if name == "llama, tied, biased" || name == "bert" {
			worlds = []int{2}
		}
		for _, ranks := range worlds {
			for _, strategy := range strategiesOf(ranks) {
				for _, precision := range []train.Precision{
					{ParamDType: "float32", ReduceDType: "float32", BufferDType: "float32"},
					{ParamDType: "bfloat16", ReduceDType: "float32", BufferDType: "bfloat16"},
					{ParamDType: "bfloat16", ReduceDType: "bfloat16", BufferDType: "float32"},
					{ParamDType: "float16", ReduceDType: "float32", BufferDType: "float16"},
				} {
					for _, recompute := range []bool{false, true} {
						variant++
						j := planner.Job{Config: train.Default(), Model: network(t, name), Ranks: ranks, Local: max(1, ranks/2), Positions: 19, Rows: rowsOf(name, variant%2 == 0)}
						c := &j.Config
						c.Training.MicroBatchSize, c.Training.GradientAccumulationSteps = 2, 1+variant%3
						c.Precision = precision
						if recompute {
							c.Recompute, c.OutputDir = recomputations[variant/2%len(recomputations)], t.TempDir()
						}
						c.Parallel.Strategy, c.Parallel.WorldInvariant = strategy, variant%4 > 0
						gatherings[variant/3%len(gatherings)](&c.Parallel)
						if _, _, err := c.Parallel.Resolve(ranks, j.Local); err != nil {
							c.Parallel.ReshardAfterForward = parallel.ReshardAlways
						}
						if variant%3 == 0 {
							c.OutputDir = t.TempDir()
							c.Offload.Optimizer.Device = parallel.OffloadNVMe
							c.Offload.Optimizer.SubGroupSize = 1
							if strings.HasSuffix(strategy, "l_shard") || strategy == "hybrid_shard" {
								c.Offload.Params.Device = parallel.OffloadNVMe
							}
						}
						c.Training.Optimizer = optimizers[variant%len(optimizers)]
						if variant%7 == 0 {
							c.Model.Freeze = []string{model.Params(meta(t, j))[5].Name}
						}
						what := fmt.Sprintf("%s, %s on %d, %+v, %v, recomputed %+v, gathered %+v, off-loaded %+v, variant %d", name, strategy, ranks, precision, c.Training.Optimizer, c.Recompute, c.Parallel, c.Offload, variant)
						measured := measure(t, j, 2)
						plan, err := j.Run(context.Background(), variant%ranks)
						if err != nil {
							t.Fatal(err)
						}
						for rank, got := range measured {
							same(t, fmt.Sprintf("%s, rank %d", what, rank), plan.Memory, got)
						}
					}
				}
			}
		}
	}
}

// Initialization of parameters takes no more than what the plan has between steps, without gradients on one rank.
func TestBeginningIsPlanned(t *testing.T) {
	for _, name := range []string{"llama", "gpt2"} {
		for _, ranks := range []int{1, 2, 4} {
			for _, dtype := range []string{"float32", "bfloat16"} {
				j := planner.Job{Config: train.Default(), Model: network(t, name), Ranks: ranks, Local: max(1, ranks/2), Positions: 19, Rows: rowsOf(name, false)}
				j.Config.Training.MicroBatchSize, j.Config.Precision.ParamDType, j.Config.Parallel.Strategy = 2, dtype, "full_shard"
				measured := measure(t, j, 0)
				plan, err := j.Run(context.Background(), 0)
				if err != nil {
					t.Fatal(err)
				}
				if ranks == 1 {
					plan.Memory.LiveTotal -= plan.Memory.Live[tensor.Grads]
					plan.Memory.Live[tensor.Grads] = 0
				}
				for rank, got := range measured {
					if got.PeakTotal != got.LiveTotal || got.LiveTotal != plan.Memory.LiveTotal || got.Live != plan.Memory.Live || got.Peak[tensor.Gathered] != 0 {
						t.Errorf("%s, rank %d of %d, %s: planned %v, holds %v, peak %v", name, rank, ranks, dtype, plan.Memory.Live, got.Live, got.Peak)
					}
				}
			}
		}
	}
}

func meta(t testing.TB, j planner.Job) model.Model {
	t.Helper()
	b, err := device.Open("meta", device.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := j.Model.Make(b, j.Positions)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// In bfloat16 a rank sends half the bytes, except a step's few scalars.
func TestTrafficHalves(t *testing.T) {
	for _, strategy := range []string{"zero_1", "shard_grad_op", "full_shard"} {
		j := planner.Job{Config: train.Default(), Model: network(t, "llama"), Ranks: 4, Positions: 19}
		j.Config.Training.MicroBatchSize, j.Config.Training.GradientAccumulationSteps, j.Config.Parallel.Strategy = 2, 2, strategy
		sent := func(dtype string) int64 {
			j.Config.Precision.ParamDType, j.Config.Precision.ReduceDType = dtype, dtype
			plan, err := j.Run(context.Background(), 1)
			if err != nil {
				t.Fatal(err)
			}
			return plan.SentBytes()
		}
		whole, half := sent("float32"), sent("bfloat16")
		if more := 2*half - whole; more < 0 || more > 1024 {
			t.Errorf("%s: %d bytes are sent in float32, %d in bfloat16", strategy, whole, half)
		}
	}
}
