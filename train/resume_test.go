package train_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"trireme/checkpoint"
	"trireme/collective"
	"trireme/collective/collectivetest"
	"trireme/device"
	"trireme/model"
	"trireme/model/freetransformer"
	"trireme/model/llama"
	"trireme/monitor"
	"trireme/optim"
	"trireme/tensor"
	"trireme/train"
)

const tinyConfig = `{"architectures": ["LlamaForCausalLM"], "vocab_size": 40, "hidden_size": 16, "intermediate_size": 28,
	"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16, "tie_word_embeddings": %t}`

// poisoned is a token whose embedding is NaN if a job asks for it, so that its step is skipped.
const poisoned = 39

// resumable is a run on 31 rows in steps of 4: steps 8 and 16 start epochs.
type resumable struct {
	dir    string
	config train.Config
}

func newResumable(t *testing.T, tied, poison bool) *resumable {
	t.Helper()
	j := &resumable{dir: t.TempDir(), config: train.Default()}
	write := func(name string, data []byte) string {
		path := filepath.Join(j.dir, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var rows strings.Builder
	for i := range 38 {
		ids := make([]int, 3+rng.IntN(9))
		for k := range ids {
			ids[k] = rng.IntN(poisoned)
		}
		if i%15 == 4 {
			ids[1] = poisoned
		}
		line, _ := json.Marshal(map[string]any{"input_ids": ids})
		fmt.Fprintf(&rows, "%s\n", line)
	}
	c := &j.config
	c.Data.Path, c.Data.EvalFraction, c.Data.SequenceLength = write("rows.jsonl", []byte(rows.String())), 0.18, 12
	c.Model.Config = write("config.json", fmt.Appendf(nil, tinyConfig, tied))
	if poison {
		c.Model.Config, c.Model.Path = "", j.writeModel(t, rng)
	}
	c.OutputDir, c.Training.MaxSteps, c.Training.LearningRate, c.Training.WarmupSteps = filepath.Join(j.dir, "out"), 11, 1e-2, 2
	c.Training.GlobalBatchSize, c.Training.EvalEveryNSteps = 4, 2
	return j
}

func (j *resumable) writeModel(t *testing.T, rng *rand.Rand) string {
	dir := filepath.Join(j.dir, "model")
	b, err := device.Open("meta", device.Options{})
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Appendf(nil, tinyConfig, false)
	mc, err := model.Registry{llama.Family}.ParseConfig("config.json", config)
	if err != nil {
		t.Fatal(err)
	}
	m, err := mc.Make(b, 0)
	if err != nil {
		t.Fatal(err)
	}
	header, data := map[string]any{}, []byte(nil)
	for _, p := range model.Params(m) {
		first := len(data)
		for i := range p.Shape.Elems() {
			v := float32(rng.NormFloat64() * 0.1)
			if p.Name == "model.embed_tokens.weight" && i/16 == poisoned {
				v = float32(math.NaN())
			}
			data = append(data, tensor.AsBytes([]float32{v})...)
		}
		header[p.Name] = map[string]any{"dtype": "F32", "shape": p.Shape, "data_offsets": [2]int{first, len(data)}}
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	all := append(append(tensor.AsBytes([]int64{int64(len(text))}), text...), data...)
	for name, b := range map[string][]byte{"config.json": config, "model.safetensors": all} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// recordingSink stores what does not depend on time or world.
type recordingSink struct {
	mu     sync.Mutex
	steps  map[int64]string
	evals  map[int64]string
	skips  int
	scales map[int64]float64 // loss scales, negative where the step was skipped; nil: not wanted
	peaks  map[int64]int64   // bytes of activations; nil: not wanted
	notes  []string
	begun  []int64 // after which steps runs went on
}

func (k *recordingSink) Record(r monitor.Record) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.Skipped {
		k.skips++
	}
	if k.peaks != nil {
		k.peaks[r.Step] = r.MemoryPeak[tensor.Activations.String()]
	}
	if k.scales != nil {
		k.scales[r.Step] = r.LossScale
		if r.Skipped {
			k.scales[r.Step] = -r.LossScale
		}
	}
	k.steps[r.Step] = fmt.Sprintf("%x loss %x norm %x lr %x skipped %t tokens %d of %d in %d epoch %v %x of %d", r.Means, r.Loss, r.GradNorm, r.LR, r.Skipped, r.LabelTokens, r.Tokens, r.Samples, r.Epoch, value(r.EpochLoss), r.MaxSteps)
	return nil
}

func value(p *float64) any {
	if p == nil {
		return nil
	}
	return *p
}

func (k *recordingSink) Evaluate(e monitor.Evaluation) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.evals[e.Step] = fmt.Sprintf("loss %x tokens %d %x", e.Loss, e.Tokens, e.Means)
	return nil
}

func (k *recordingSink) sink(resumed int64) (monitor.Sink, error) {
	k.begun = append(k.begun, resumed)
	return k, nil
}

func (k *recordingSink) Close() error { return nil }

func (k *recordingSink) Note(text string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.notes = append(k.notes, text)
	return nil
}

// run trains until a step, or to the end, and stores rank 0's records.
func (j *resumable) run(t *testing.T, c train.Config, world int, until int64, into *recordingSink) {
	t.Helper()
	j.restart(t, c, world, until, into, 0, nil)
}

// restart is run as a later start of a job, with the memory of its launcher.
func (j *resumable) restart(t *testing.T, c train.Config, world int, until int64, into *recordingSink, count int, memory *os.File) {
	t.Helper()
	meet := collectivetest.NewBootstrap(world)
	collectivetest.Ranks(t, world, func(w collective.World) error {
		deps := train.Deps{Registry: model.Registry{llama.Family, freetransformer.Family}, World: w, ProcessGroup: meet.Rank(w.Rank()), LocalRanks: max(1, world/2)} // as on two machines
		deps.Restart, deps.HostMemory, deps.LocalRank = count, memory, w.Rank()
		if w.Rank() == 0 {
			deps.Sink = into.sink
		}
		r, err := train.Open(context.Background(), c, deps)
		if err != nil {
			return err
		}
		for rec, err := range r.Steps(context.Background()) {
			if err != nil {
				r.Close()
				return err
			}
			if rec.Step == until {
				break
			}
		}
		return r.Close()
	})
}

// state returns the full contents of a checkpoint: tensors and trainer state.
func state(t *testing.T, dir string) map[string]string {
	t.Helper()
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b, err := device.Open("cpu", device.Options{Reserve: 1 << 28})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	out := map[string]string{"state": string(c.Meta().State), "step": fmt.Sprint(c.Meta().Step)}
	for _, x := range c.Tensors() {
		n := x.Shape.Elems()
		it := checkpoint.Item{Kind: x.Kind, Shard: tensor.Shard{Name: x.Name, DType: x.DType, Shape: x.Shape, Box: tensor.FullBox(x.Shape), Data: b.New(tensor.Params, x.DType, n)}}
		if err := c.Load(context.Background(), []checkpoint.Item{it}, checkpoint.LoadOptions{}); err != nil {
			t.Fatal(err)
		}
		out[x.Kind+" "+x.Name] = string(tensor.HostBytes(it.Data))
	}
	return out
}

// A run that is saved and resumed in another world with another strategy gives the bits of an
// uninterrupted one: values per step, evaluations, parameters, moments, and position in the data.
func TestResumeIsExact(t *testing.T) {
	for i, v := range []struct {
		name         string
		tied, poison bool
		freeze       []string
		cut          int64
		from, to     int
		first, then  string
		full         bool
		precision    train.Precision // zero: float32
		away, back   bool            // state rests in files before the break, and after it
		optimizer    optim.Config    // nil: the default
		average      bool            // of the weights
	}{
		{name: "2 ranks to 1", cut: 5, from: 2, to: 1, first: "full_shard", then: "no_shard"},
		{name: "1 rank to 4, at an epoch's end", tied: true, cut: 8, from: 1, to: 4, first: "zero_1", then: "full_shard", full: true},
		{name: "4 ranks to 2, frozen", freeze: []string{"model.layers.1.*", "model.embed_tokens.weight"}, cut: 3, from: 4, to: 2, first: "hybrid_shard", then: "shard_grad_op"},
		{name: "skipped steps, 2 to 4", poison: true, cut: 6, from: 2, to: 4, first: "shard_grad_op", then: "hybrid_shard_zero2"},
		{name: "frozen and tied, 2 to 2", tied: true, freeze: []string{"model.norm.weight"}, cut: 9, from: 2, to: 2, first: "zero_1", then: "zero_1"},
		{name: "bfloat16, 2 to 4", poison: true, cut: 5, from: 2, to: 4, first: "zero_1", then: "hybrid_shard", precision: train.Precision{ParamDType: "bfloat16", ReduceDType: "float32", BufferDType: "float32"}},
		{name: "bfloat16, frozen and tied, 4 to 1", tied: true, freeze: []string{"model.layers.1.*"}, cut: 5, from: 4, to: 1, first: "full_shard", then: "no_shard", precision: train.Precision{ParamDType: "bf16", ReduceDType: "bf16", BufferDType: "bf16"}},
		{name: "off-loaded, 2 to 1", cut: 5, from: 2, to: 1, first: "full_shard", then: "full_shard", away: true, back: true},
		{name: "off-loaded to memory, 4 to 2", poison: true, cut: 6, from: 4, to: 2, first: "hybrid_shard", then: "zero_1", away: true},
		{name: "memory to off-loaded in bfloat16, 1 to 4, tied", tied: true, cut: 5, from: 1, to: 4, first: "no_shard", then: "full_shard", back: true, full: true, precision: train.Precision{ParamDType: "bfloat16", ReduceDType: "float32", BufferDType: "float32"}},
		{name: "off-loaded in float16, 2 to 2, frozen", poison: true, freeze: []string{"model.layers.1.*"}, cut: 5, from: 2, to: 2, first: "full_shard", then: "zero_1", away: true, back: true, precision: train.Precision{ParamDType: "float16", ReduceDType: "float32", BufferDType: "float32"}},
		{name: "muon, skipped steps, 2 to 4", optimizer: optim.Config{"name": "muon"}, poison: true, cut: 6, from: 2, to: 4, first: "zero_1", then: "full_shard", back: true},
		{name: "muon, off-loaded, 4 to 1", optimizer: optim.Config{"name": "muon"}, cut: 5, from: 4, to: 1, first: "hybrid_shard", then: "no_shard", away: true},
		{name: "adafactor, 4 to 2", optimizer: optim.Config{"name": "adafactor", "beta1": 0.9, "scale_parameter": false}, poison: true, cut: 5, from: 4, to: 2, first: "full_shard", then: "zero_1"},
		{name: "adafactor in bfloat16, off-loaded, 1 to 4", optimizer: optim.Config{"name": "adafactor", "relative_step": false}, cut: 5, from: 1, to: 4, first: "no_shard", then: "hybrid_shard", back: true, precision: train.Precision{ParamDType: "bfloat16", ReduceDType: "float32", BufferDType: "float32"}},
		{name: "lamb, off-loaded, 2 to 4", optimizer: optim.Config{"name": "lamb"}, poison: true, cut: 6, from: 2, to: 4, first: "full_shard", then: "shard_grad_op", away: true},
		{name: "lamb, 4 to 1", optimizer: optim.Config{"name": "lamb"}, cut: 5, from: 4, to: 1, first: "hybrid_shard", then: "full_shard"},
		{name: "momentum, off-loaded, 2 to 4", optimizer: optim.Config{"name": "sgd", "momentum": 0.9}, cut: 5, from: 2, to: 4, first: "full_shard", then: "hybrid_shard_zero2", away: true, back: true},
		{name: "state in bytes, off-loaded, 4 to 2", optimizer: optim.Config{"name": "adamw_8bit", "min_8bit_size": 100.0}, cut: 5, from: 4, to: 2, first: "full_shard", then: "full_shard", away: true, back: true},
		{name: "lion and an average, skipped steps, off-loaded, 2 to 4", optimizer: optim.Config{"name": "lion"}, average: true, poison: true, cut: 6, from: 2, to: 4, first: "full_shard", then: "zero_1", away: true},
		{name: "muon and an average, 4 to 2", optimizer: optim.Config{"name": "muon"}, average: true, cut: 5, from: 4, to: 2, first: "shard_grad_op", then: "full_shard"},
		{name: "adagrad, 1 to 4", optimizer: optim.Config{"name": "adagrad", "initial_accumulator_value": 0.1}, poison: true, cut: 6, from: 1, to: 4, first: "no_shard", then: "full_shard"},
		{name: "state in bfloat16, 1 to 2", optimizer: optim.Config{"name": "adamw_bf16"}, cut: 5, from: 1, to: 2, first: "no_shard", then: "full_shard", back: true},
	} {
		if testing.Short() && i%3 > 0 { // a third of them
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			j := newResumable(t, v.tied, v.poison)
			if v.optimizer != nil {
				j.config.Training.Optimizer = v.optimizer
			}
			if v.average {
				j.config.Training.EMA = optim.EMA{Decay: 0.9, UseWarmup: true, UpdateAfterStep: 3}
			}
			j.config.Model.Freeze = v.freeze
			if v.precision != (train.Precision{}) {
				j.config.Precision = v.precision
			}
			if v.full {
				j.config.Checkpoint.StateDictType = checkpoint.Full
			}
			through := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
			c := j.config
			c.OutputDir, c.Parallel.Strategy = filepath.Join(j.dir, "through"), v.first
			j.run(t, c, v.from, 0, through)
			if v.poison && (through.skips == 0 || through.skips > 6) {
				t.Fatalf("%d steps were skipped: the case tests nothing", through.skips)
			}
			parts := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
			c = j.config
			c.Parallel.Strategy, c.Checkpoint.SaveEveryNSteps = v.first, int(v.cut)
			if v.away {
				c.Offload = offloaded(v.first)
			}
			j.run(t, c, v.from, v.cut, parts)
			c.Parallel.Strategy, c.Resume, c.Offload = v.then, "auto", j.config.Offload
			if v.back {
				c.Offload = offloaded(v.then)
			}
			j.run(t, c, v.to, 0, parts)
			if len(through.steps) != 11 || len(through.evals) != 6 {
				t.Fatalf("%d steps and %d evaluations", len(through.steps), len(through.evals))
			}
			whole := c
			whole.OutputDir = filepath.Join(j.dir, "through")
			j.sameAs(t, c, whole, parts, through)
		})
	}
}
