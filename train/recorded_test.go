package train_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"trireme/collective"
	"trireme/data"
	"trireme/device"
	"trireme/internal/backend/record"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
	"trireme/tensor/compose"
	"trireme/train"
)

// recordedRows and recordedPositions are the shape of a micro-batch in these tests.
const recordedRows, recordedPositions = 2, 24

type recordedTask struct {
	name    string
	config  string  // config.json
	counted float64 // share of the rows that have a target; the number differs between micro-batches
	tokens  int     // of a micro-batch; 0 is nearly all that rows have room for, in rows of several lengths
	docs    bool
	classes int
	uneven  bool // numbers of tokens and rows differ between micro-batches, not between steps
}

var recordedTasks = []recordedTask{
	{name: "llama causal", counted: 0.9, docs: true, config: `{"architectures": ["Qwen3ForCausalLM"], "vocab_size": 40, "hidden_size": 16, "intermediate_size": 28,
		"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "max_position_embeddings": 24, "tie_word_embeddings": true}`},
	{name: "llama chat", counted: 0.2, config: `{"architectures": ["LlamaForCausalLM"], "vocab_size": 40, "hidden_size": 16, "intermediate_size": 28,
		"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 24, "tie_word_embeddings": false, "attention_dropout": 0.1}`},
	{name: "llama packed", counted: 1, docs: true, tokens: recordedRows * recordedPositions, config: `{"architectures": ["LlamaForCausalLM"], "vocab_size": 40, "hidden_size": 16,
		"intermediate_size": 28, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 24, "tie_word_embeddings": true}`},
	{name: "gpt2 causal", counted: 0.9, config: `{"architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new", "vocab_size": 40, "n_embd": 16, "n_layer": 3, "n_head": 4,
		"n_positions": 24, "n_ctx": 24, "embd_pdrop": 0.1, "attn_pdrop": 0.1, "resid_pdrop": 0.1}`},
	{name: "bert masked", counted: 0.2, docs: true, config: `{"architectures": ["BertForMaskedLM"], "hidden_act": "gelu", "vocab_size": 40, "hidden_size": 16, "intermediate_size": 28,
		"num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 24, "type_vocab_size": 2, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}`},
	{name: "bert classify", classes: 3, docs: true, config: `{"architectures": ["BertForSequenceClassification"], "hidden_act": "gelu", "vocab_size": 40, "hidden_size": 16, "intermediate_size": 28,
		"num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 24, "type_vocab_size": 2, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "num_labels": 3}`},
	{name: "freetransformer causal", counted: 0.9, config: `{"architectures": ["FreeTransformerForCausalLM"], "vocab_size": 40, "hidden_size": 16, "intermediate_size": 28,
		"num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 24, "tie_word_embeddings": true, "latent_bits": 4, "latent_mode": "exact", "free_bits": 0.1, "initializer_range": 0.2}`},
}

func (c recordedTask) micro(step, m int) data.MicroBatch {
	rng := rand.New(rand.NewPCG(uint64(step), uint64(m)))
	tokens := recordedRows*recordedPositions - 1 - rng.IntN(5) // the same bucket
	if c.tokens > 0 {
		tokens = c.tokens
	}
	rows := recordedRows
	if c.uneven {
		rows = 1 + (m+1)%recordedRows
		tokens = rows * (recordedPositions - 5*m%recordedPositions)
	}
	b := data.UniformMicroBatch(rows, tokens, recordedPositions, data.Info{Docs: c.docs, Classes: c.classes > 0})
	b.MaxRows, b.MaxTokens, b.LabelCount = recordedRows, recordedRows*recordedPositions, 0
	for i := range b.SampleKeys {
		b.SampleKeys[i] += int64(step*100 + m*recordedRows)
	}
	for i := range b.TokenKeys {
		b.TokenKeys[i] += int64(step*100+m*recordedRows) * recordedPositions
	}
	for i := range b.InputIDs {
		b.InputIDs[i], b.Targets[i] = rng.Int32N(40), data.Ignored
		if c.docs {
			b.Docs[i] = int32(i % recordedPositions / (9 + m%3))
		}
		if rng.Float64() < c.counted {
			b.Targets[i] = rng.Int32N(40)
			b.LabelCount++
		}
	}
	for i := range b.Classes {
		b.Classes[i] = rng.Int32N(int32(c.classes))
		b.LabelCount++
	}
	return b
}

// recordedCase is a task and its sharding.
type recordedCase struct {
	recordedTask
	world   int
	accum   int
	config  train.Config
	core    bool                                                              // composites are recorded as what they are made of
	devices func(w collective.World) (device.Device, collective.World, error) // nil: cpu
}

// recordingBackend is a backend that records programs and runs none.
type recordingBackend struct {
	tensor.Backend // rec, or its operations composed of core operations
	rec            *record.Backend
	programs       []*record.Recording
}

func (b *recordingBackend) Static() bool { return true }
func (b *recordingBackend) DownloadAsync(src *tensor.Tensor) func() []byte {
	return b.rec.DownloadAsync(src)
}
func (b *recordingBackend) Compile(last bool, f func() error) error {
	p, err := b.rec.Record(last, f)
	b.programs = append(b.programs, p)
	return err
}

const recordedSteps = 3

type recordedRank struct {
	*train.Components
	b   tensor.Backend
	rec *recordingBackend // nil for direct execution
}

// record returns the programs of f on each rank.
func (c recordedCase) record(t *testing.T, ranks []*recordedRank, f func(k *recordedRank, r int) error) (programs [][]*record.Recording) {
	t.Helper()
	errs := c.each(ranks, func(r int) error {
		ranks[r].rec.programs = nil
		return f(ranks[r], r)
	})
	for r, k := range ranks {
		if errs[r] != nil {
			t.Fatalf("rank %d: %v", r, errs[r])
		}
		programs = append(programs, k.rec.programs)
	}
	return programs
}

// replay runs the programs of one step, or these rolled, with the inputs and buffers of another.
func (k *recordedRank) replay(programs, with []*record.Recording, rolled bool) error {
	for i, p := range programs {
		run := func() error { return k.rec.rec.Replay(context.Background(), p.Program, with[i]) }
		if rolled {
			run = func() error { return k.rec.rec.ReplayRolled(context.Background(), p.Roll(), with[i]) }
		}
		if err := run(); err != nil {
			return err
		}
	}
	return nil
}

// sameTexts reports the first difference between programs that should be equal.
func sameTexts(want, got []*record.Recording) string {
	if len(want) != len(got) {
		return fmt.Sprintf("%d programs, want %d", len(got), len(want))
	}
	for i, p := range want {
		if diff := record.Diff(p.String(), got[i].String()); diff != "" {
			return fmt.Sprintf("program %d: %s", i, diff)
		}
	}
	return ""
}

// distinct is the number of different programs.
func distinct(programs []*record.Recording) int {
	texts := map[string]bool{}
	for _, p := range programs {
		texts[p.String()] = true
	}
	return len(texts)
}

// open builds all ranks, on recording backends if recording is true.
func (c recordedCase) open(t *testing.T, recording bool) []*recordedRank {
	t.Helper()
	ranks, errs := c.try(t, recording)
	for r, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
	return ranks
}

// try is open with the error of each rank.
func (c recordedCase) try(t *testing.T, recording bool) ([]*recordedRank, []error) {
	t.Helper()
	worlds, err := collective.NewLocal(c.world, collective.Config{Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	config, err := families.ParseConfig("config.json", []byte(c.recordedTask.config))
	if err != nil {
		t.Fatal(err)
	}
	ranks := make([]*recordedRank, c.world)
	return ranks, c.each(ranks, func(r int) error {
		open := c.devices
		if open == nil {
			open = func(w collective.World) (device.Device, collective.World, error) {
				b, err := device.Open("cpu", device.Options{Threads: 1, Reserve: 1 << 30})
				return b, w, err
			}
		}
		b, world, err := open(worlds[r])
		if err != nil {
			return err
		}
		t.Cleanup(func() { b.Close() })
		t.Cleanup(func() { worlds[r].Close() })
		k := &recordedRank{b: b}
		if recording {
			rec := record.New(b)
			k.rec, world = &recordingBackend{Backend: rec, rec: rec}, rec.World(world)
			if k.b = k.rec; c.core {
				k.rec.Backend = compose.NewBackend(rec)
			}
		}
		ranks[r] = k
		k.Components, err = c.config.Build(k.b, config, recordedPositions, train.Ranks{Ranks: world, Local: max(1, c.world/2)}, true)
		if err != nil {
			return err
		}
		t.Cleanup(func() { k.Engine.Close() })
		if err := k.Engine.Init(7); err != nil {
			return err
		}
		return k.Engine.Refresh(context.Background())
	})
}

func (c recordedCase) each(ranks []*recordedRank, f func(r int) error) []error {
	errs := make([]error, len(ranks))
	var wg sync.WaitGroup
	for r := range ranks {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[r] = f(r)
		}()
	}
	wg.Wait()
	return errs
}

func (c recordedCase) step(k *recordedRank, rank, step int) error {
	var micros []data.MicroBatch
	for a := range c.accum {
		micros = append(micros, c.micro(step, a*c.world+rank))
	}
	return k.Stepper.Step(context.Background(), micros, func(update int) float64 { return 1e-2 / float64(update+1) })
}

// state returns a rank's state and the result of its last step.
func (k *recordedRank) state(t *testing.T) (state map[string][]byte, outcome train.StepResult) {
	t.Helper()
	state = map[string][]byte{}
	if err := k.Engine.Sync(); err != nil {
		t.Fatal(err)
	}
	for _, item := range k.Engine.State() {
		text := make([]byte, item.Data.Bytes())
		k.b.Download(text, item.Data)
		state[fmt.Sprint(item.Kind, " ", item.Name, " ", item.Box)] = text
	}
	outcome = k.Stepper.Result()
	outcome.Result = nil
	return state, outcome
}

// The programs of a step, one per micro-batch, are the same on every rank and in every step, whatever the
// learning rate, rows and label count. Rank 0's first ones, replayed by every rank in each step, rolled in
// every other step, give the bits of direct execution. FULL_MATRIX=1 runs each task with all strategies on all numbers
// of ranks; else each pair of these, and of these and precisions and recomputations, occurs.
func TestRecordedStep(t *testing.T) {
	strategies := []string{"no_shard", "zero_1", "shard_grad_op", "full_shard", "hybrid_shard", "hybrid_shard_zero2"}
	precisions := []train.Precision{
		{ParamDType: "float32", ReduceDType: "float32", BufferDType: "float32"},
		{ParamDType: "bfloat16", ReduceDType: "float32", BufferDType: "bfloat16"},
		{ParamDType: "float16", ReduceDType: "float16", BufferDType: "float32"},
	}
	recomputes := []train.Recompute{
		{},
		{Enabled: true, EveryNLayers: 1, Part: "attention_and_mlp", Keep: "products", Store: "memory"},
		{Enabled: true, EveryNLayers: 1, Part: "layer", Segments: 2, Store: "memory"},
		{Enabled: true, EveryNLayers: 1, Part: "layer", Keep: "attention", Store: "memory"},
	}
	for i, task := range recordedTasks {
		for j, world := range []int{1, 2, 4} {
			for k, strategy := range strategies {
				if !crossAll() && (i+k)%3 != j || testing.Short() && i > 2 {
					continue
				}
				c := recordedCase{recordedTask: task, world: world, accum: 1 + 2*((i+k/3)%2), config: train.Default()}
				c.config.Parallel.Strategy = strategy
				c.config.Training.MicroBatchSize = recordedRows
				c.config.Precision = precisions[(i+2*k)%len(precisions)] // each with each strategy and world
				c.config.Recompute = recomputes[(i+k)%len(recomputes)]
				t.Run(fmt.Sprintf("%s/%s on %d", task.name, strategy, world), c.test)
			}
		}
	}
}

// Every optimizer can be recorded, with an average of the weights and a parameter group.
func TestRecordedOptimizers(t *testing.T) {
	for _, name := range (optim.Config{}).Choices() {
		for _, strategy := range []string{"zero_1", "full_shard"} {
			c := recordedCase{recordedTask: recordedTasks[0], world: 2, accum: 1, config: train.Default()}
			c.config.Parallel.Strategy, c.config.Training.MicroBatchSize = strategy, recordedRows
			c.config.Training.Optimizer, c.config.Training.EMA.Decay = optim.Config{"name": name}, 0.9
			switch name {
			case "adamw_8bit":
				c.config.Training.Optimizer["min_8bit_size"] = int64(100)
			case "sgd":
				c.config.Training.Optimizer["momentum"] = 0.9
			}
			c.config.Training.ParameterGroups = []optim.GroupConfig{{Match: "*norm*", LRFactor: new(0.5), Optimizer: optim.Config{"name": "adagrad"}}}
			t.Run(name+"/"+strategy, c.test)
		}
	}
}

func (c recordedCase) test(t *testing.T) {
	direct, recorded := c.open(t, false), c.open(t, true)
	var recs [recordedSteps][][]*record.Recording
	for step := range recs { // all before the first one runs: no step waits for another's outcome
		recs[step] = c.record(t, recorded, func(k *recordedRank, r int) error { return c.step(k, r, step) })
		for r, programs := range recs[step] {
			if diff := sameTexts(recs[0][0], programs); diff != "" {
				t.Fatalf("rank %d, step %d: %s", r, step, diff)
			}
		}
	}
	count, unlike := 1, 1 // all, and different ones
	if c.accum > 1 {
		count, unlike = c.accum+1, 3 // the beginning, micro-batches, the last one with the end
	}
	if n := distinct(recs[0][0]); len(recs[0][0]) != count || n != unlike && !c.uneven {
		t.Errorf("%d micro-batches are %d programs, %d of them distinct", c.accum, len(recs[0][0]), n)
	}
	for step := range recs {
		errs := c.each(direct, func(r int) error { return c.step(direct[r], r, step) })
		errs = append(errs, c.each(recorded, func(r int) error {
			return recorded[r].replay(recs[0][0], recs[step][r], step%2 == 1)
		})...)
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for r, k := range recorded {
			want, outcome := direct[r].state(t)
			got, replayed := k.state(t)
			if !reflect.DeepEqual(outcome, replayed) || !outcome.Applied {
				t.Errorf("rank %d, step %d: replayed %+v, directly %+v", r, step, replayed, outcome)
			}
			for name, bits := range want {
				if !bytes.Equal(got[name], bits) {
					t.Fatalf("rank %d, step %d: %s has other bits", r, step, name)
				}
			}
		}
	}
}

// Operations that cannot be recorded are refused by key or by name.
func TestNotRecorded(t *testing.T) {
	plain := recordedCase{recordedTask: recordedTasks[0], world: 1, accum: 1, config: train.Default()}
	for key, change := range map[string]func(c *train.Config){
		"offload.optimizer.device=none": func(c *train.Config) { c.Offload.Optimizer.Device = parallel.OffloadNVMe },
		"offload.params.device=none": func(c *train.Config) {
			c.Offload.Params.Device, c.Parallel.Strategy = parallel.OffloadNVMe, "full_shard"
		},
		"activation_checkpointing.store=memory": func(c *train.Config) { c.Recompute.Enabled, c.Recompute.Store = true, "disk" },
	} {
		c := plain
		c.config.OutputDir = t.TempDir()
		change(&c.config)
		_, errs := c.try(t, true)
		if errs[0] == nil || !strings.Contains(errs[0].Error(), key) {
			t.Errorf("%s: %v", key, errs[0])
		}
	}
	for what, read := range map[string]func(k *recordedRank){
		"DownloadAsync":      func(k *recordedRank) { k.Stepper.Result() },
		"Download":           func(k *recordedRank) { k.b.Download(make([]byte, 4), k.Engine.HeldParams()[0].Data.Flat(0, 1)) },
		"not in host memory": func(k *recordedRank) { tensor.HostBytes(k.Engine.HeldParams()[0].Data) },
	} {
		k := plain.open(t, true)[0]
		err := plain.step(k, 0, 0)
		if err == nil {
			_, err = k.rec.rec.Record(true, func() error { return k.Engine.Guard(func() { read(k) }) })
		}
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
