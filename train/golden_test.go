package train_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"trireme/autograd"
	"trireme/checkpoint/safetensors"
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
	"trireme/tensor"
	"trireme/train"
)

var families = model.Registry{llama.Family, gpt2.Family, bert.Family, freetransformer.Family}

// golden is a reference run; see testdata/README.md.
type golden struct {
	changes         map[string]any // in config.json
	dir             string
	precision       parallel.Precision
	matmul          device.Float32Matmul
	scaler          *optim.Scaler   // nil for none
	optimizer       optim.Optimizer // nil for AdamW
	offload         parallel.Offload
	skips           bool // steps may be skipped
	late            int  // steps that are begun before the outcome of one is read
	recompute       train.Recompute
	devices         func(w collective.World) (device.Device, collective.World, error) // nil: cpu
	Hyperparameters struct {
		LR                        float64
		Betas                     [2]float64
		Eps                       float64
		WeightDecay               float64 `json:"weight_decay"`
		MaxGradNorm               float64 `json:"max_grad_norm"`
		WarmupSteps               int     `json:"warmup_steps"`
		Schedule                  string
		Steps                     int
		SequenceLength            int `json:"sequence_length"`
		MicroBatchSize            int `json:"micro_batch_size"`
		GradientAccumulationSteps int `json:"gradient_accumulation_steps"`
	}
	Expected []struct {
		Step     int
		Loss     float64
		GradNorm float64 `json:"grad_norm"`
		LR       float64
	}
	FirstLogits []float64 `json:"first_logits"`
}

func readGolden(t *testing.T, dir string) *golden {
	t.Helper()
	g := &golden{dir: dir}
	data, err := os.ReadFile(filepath.Join(dir, "case.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, g); err != nil {
		t.Fatal(err)
	}
	return g
}

// loader returns the case's rows in order for one rank.
func (g *golden) loader(info model.Info, microSize, rank, ranks int) (*data.Loader, error) {
	h := g.Hyperparameters
	perStep := h.GradientAccumulationSteps * h.MicroBatchSize / microSize
	if perStep%ranks != 0 {
		return nil, fmt.Errorf("%d micro-batches on %d ranks", perStep, ranks)
	}
	sets, err := data.Open(context.Background(), data.Config{Path: filepath.Join(g.dir, "data.jsonl")}, data.ModelInfo{}, nil, nil)
	if err != nil {
		return nil, err
	}
	return data.NewLoader(sets.Train, data.LoaderConfig{
		MicroBatchSize: microSize, Accumulation: perStep / ranks, Rank: rank, Ranks: ranks,
		SequenceLength: h.SequenceLength, Vocab: info.Vocab, Task: map[model.Task]data.Task{model.Masked: data.MaskedLM, model.Classify: data.SequenceClassification}[info.Task],
	})
}

// firstLogits returns the logits of the last row of the first sequence, or of the first sequences' labels.
func (g *golden) firstLogits(t *testing.T) []float32 {
	t.Helper()
	m, err := train.LoadModel(families, filepath.Join(g.dir, "model"), device.Config{Name: "cpu", Threads: 1}, train.Float32)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	loader, err := g.loader(m.Model.Info(), g.Hyperparameters.MicroBatchSize, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer loader.Close()
	first, err := loader.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	batch, done := train.Upload(m.Backend, first.Micro[0])
	defer done()
	logits := m.Model.Logits(autograd.NewTape(m.Backend, tensor.F32, false), batch, int(first.Micro[0].Starts[1])-1)
	defer logits.Release()
	return append([]float32{}, tensor.Host[float32](logits)...)
}

// result holds the bits of a run: per-step values and parameters.
type result struct {
	loss, norm, lr []float64
	scales         []float64 // before each step
	params         map[string][]float32
	memory         tensor.Usage // of rank 0
}

// run trains the case on a number of ranks in one process.
func (g *golden) run(t *testing.T, world int, cfg parallel.Config, microSize, threads int) *result {
	t.Helper()
	out := &result{params: map[string][]float32{}}
	var mu sync.Mutex
	collectivetest.Ranks(t, world, func(w collective.World) error { return g.rank(w, cfg, microSize, threads, out, &mu) })
	return out
}

func (g *golden) rank(w collective.World, cfg parallel.Config, microSize, threads int, out *result, mu *sync.Mutex) error {
	h := g.Hyperparameters
	open := g.devices
	if open == nil {
		open = func(collective.World) (device.Device, collective.World, error) {
			b, err := device.Open("cpu", device.Options{Threads: threads, Float32Matmul: g.matmul})
			return b, w, err
		}
	}
	b, w, err := open(w)
	if err != nil {
		return err
	}
	defer b.Close()
	s, extents, err := cfg.Resolve(w.Size(), max(1, w.Size()/2)) // as on two machines
	if err != nil {
		return err
	}
	mesh, err := parallel.NewMesh(w, extents, 0)
	if err != nil {
		return err
	}
	mc, err := families.ReadConfig(filepath.Join(g.dir, "model", "config.json"))
	if err != nil {
		return err
	}
	if mc, err = mc.With(g.changes); err != nil {
		return err
	}
	m, err := mc.Make(b, h.SequenceLength)
	if err != nil {
		return err
	}
	g.recompute.Apply(m.Units())
	how := optim.Grouping{Optimizer: g.optimizer, WeightDecay: h.WeightDecay}
	if how.Optimizer == nil {
		how.Optimizer = optim.AdamW{Beta1: h.Betas[0], Beta2: h.Betas[1], Eps: h.Eps}
	}
	e, err := parallel.New(b, mesh, m.Units(),
		parallel.Options{Strategy: s, WorldInvariant: cfg.WorldInvariant, Precision: g.precision, Optim: how, Offload: g.offload})
	if err != nil {
		return err
	}
	defer e.Close()
	if err := e.Init(1); err != nil {
		return err
	}
	files, err := safetensors.OpenModel(filepath.Join(g.dir, "model"))
	if err != nil {
		return err
	}
	defer files.Close()
	names := fileNames(m)
	for _, p := range e.HeldParams() {
		if err := e.Fill(p, func(dst *tensor.Tensor, first int) error {
			text := make([]byte, dst.Bytes())
			defer func() { b.Upload(dst, text) }()
			return files.ReadAs(names[p.Name], tensor.F32, first, dst.Elems(), text)
		}); err != nil {
			return err
		}
	}
	if err := e.Refresh(context.Background()); err != nil {
		return err
	}
	st := train.NewStepper(b, m, e, h.MaxGradNorm, 0)
	if g.scaler != nil {
		st.ScaleLoss(g.scaler, g.scaler.Start())
	}
	schedule := optim.Schedule{LRScheduler: h.Schedule, LearningRate: h.LR, WarmupSteps: h.WarmupSteps, TotalSteps: h.Steps}
	loader, err := g.loader(m.Info(), microSize, w.Rank(), w.Size())
	if err != nil {
		return err
	}
	defer loader.Close()
	var losses, norms, lrs, scales []float64
	for step := range h.Steps {
		batch, err := loader.Next(context.Background())
		if err != nil {
			return err
		}
		if err := st.Step(context.Background(), batch.Micro, schedule.At); err != nil {
			return err
		}
		for unread := step + 1 - len(lrs); unread > g.late || unread > 0 && step == h.Steps-1; unread-- {
			o := st.Result()
			if lrs = append(lrs, o.LR); !o.Applied && !g.skips {
				return fmt.Errorf("step %d was skipped", len(lrs))
			}
			losses, norms = append(losses, o.Loss), append(norms, o.GradNorm)
			if o.LossScale != nil {
				scales = append(scales, o.LossScale.Scale)
			}
		}
	}
	if w.Rank() == 0 {
		out.loss, out.norm, out.lr, out.scales = losses, norms, lrs, scales
	}
	if err := e.Sync(); err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	if w.Rank() == 0 {
		out.memory = b.Meter().Read()
	}
	for _, p := range e.OwnedParams() {
		all := out.params[names[p.Name]]
		if all == nil {
			all = make([]float32, p.Shape.Elems())
			out.params[names[p.Name]] = all
		}
		text := make([]byte, p.Data.Bytes())
		b.Download(text, p.Data)
		own := tensor.FromBytes[float32](text)
		for run := range p.Runs() {
			copy(all[run.Y:], own[run.X:run.X+run.N])
		}
	}
	return nil
}

func fileNames(m model.Model) map[string]string {
	names := map[string]string{}
	for _, p := range model.Params(m) {
		names[p.Name] = append(slices.Clone(p.Aliases), p.Name)[0]
	}
	return names
}

var cases = []string{"llama-mha", "llama-gqa-accum", "qwen2", "gpt2", "bert-cls", "mistral-window", "qwen3", "qwen3-yarn", "llama3-rope", "llama-answers", "bert-masked", "bert-padding", "bert-untied", "llama-padding"}

func near(got, want, relative float64) bool {
	return math.Abs(got-want) <= relative*math.Abs(want)
}

func TestGolden(t *testing.T) {
	oneGoroutine(t)
	for _, name := range cases {
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, filepath.Join("testdata", "golden", name))
			logits := g.firstLogits(t)
			for i, want := range g.FirstLogits {
				if got := float64(logits[i]); math.Abs(got-want) > 1e-4 {
					t.Fatalf("logit %d of the first sequence is %v, want %v: forward differs", i, got, want)
				}
			}
			g.compare(t, g.run(t, 1, parallel.Default(), g.Hyperparameters.MicroBatchSize, 1))
		})
	}
}

// compare compares the curves and the parameters with the reference's.
func (g *golden) compare(t *testing.T, r *result) {
	t.Helper()
	for i, want := range g.Expected {
		if !near(r.loss[i], want.Loss, 1e-4) {
			t.Errorf("step %d: loss %v, want %v", want.Step, r.loss[i], want.Loss)
		}
		if !near(r.norm[i], want.GradNorm, 1e-3) {
			t.Errorf("step %d: grad_norm %v, want %v", want.Step, r.norm[i], want.GradNorm)
		}
		if r.lr[i] != want.LR {
			t.Errorf("step %d: lr %v, want %v", want.Step, r.lr[i], want.LR)
		}
	}
	g.compareFinal(t, r)
}

// keyBiases are biases of keys without rotary embedding. They add one number to all scores of a row, so
// their gradient is 0 but for rounding, and AdamW makes steps of any size of it. In a fused bias they are
// the elements of the keys.
var keyBiases = []string{"attention.self.key.bias"}

// compareFinal compares the parameters with the reference's. Those of the larger case are in the shared
// data.
func (g *golden) compareFinal(t *testing.T, r *result) {
	t.Helper()
	path := filepath.Join(g.dir, "final.safetensors")
	if _, err := os.Stat(path); err != nil {
		path = filepath.Join("..", "..", "shared", "data", "golden", filepath.Base(g.dir), "final.safetensors")
		if _, err := os.Stat(path); err != nil {
			t.Logf("final parameters are not compared: %s is not there", path)
			return
		}
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, info := range f.Tensors() {
		if slices.ContainsFunc(keyBiases, func(b string) bool { return strings.HasSuffix(info.Name, b) }) {
			continue
		}
		got := r.params[info.Name]
		if got == nil {
			t.Errorf("parameter %s is missing", info.Name)
			continue
		}
		want := make([]float32, len(got))
		if err := f.ReadAs(info.Name, tensor.F32, 0, len(want), tensor.AsBytes(want)); err != nil {
			t.Fatal(err)
		}
		worst, at := 0.0, 0
		for i := range want {
			if d := math.Abs(float64(got[i] - want[i])); !(d <= worst) {
				worst, at = d, i
			}
		}
		if !(worst <= 2e-4) {
			t.Errorf("parameter %s differs by up to %v, at element %d of %v", info.Name, worst, at, info.Shape)
		}
	}
}

func (r *result) equal(t *testing.T, what string, o *result) {
	t.Helper()
	for i := range r.loss {
		if r.loss[i] != o.loss[i] || math.Float64bits(r.norm[i]) != math.Float64bits(o.norm[i]) {
			t.Errorf("%s: step %d: loss %v grad_norm %v, on one rank %v %v", what, i+1, o.loss[i], o.norm[i], r.loss[i], r.norm[i])
			return
		}
	}
	for name, want := range r.params {
		for i, v := range o.params[name] {
			if math.Float32bits(v) != math.Float32bits(want[i]) {
				t.Errorf("%s: parameter %s, element %d: %v, on one rank %v", what, name, i, v, want[i])
				return
			}
		}
	}
}

// Every strategy, number of ranks and number of threads gives the bits of one rank. FULL_MATRIX=1 runs each case with all
// strategies on all numbers of ranks; else each pair of these occurs.
func TestSameBits(t *testing.T) {
	for i, name := range cases {
		if testing.Short() && i%5 != 1 { // these have all strategies on all numbers of ranks
			continue
		}
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, filepath.Join("testdata", "golden", name))
			h := &g.Hyperparameters
			h.Steps = 2
			if name == "llama-gqa-accum" {
				h.Steps = 4
			}
			cfg := parallel.Default()
			one := g.run(t, 1, cfg, 1, 1)
			one.equal(t, "3 threads", g.run(t, 1, cfg, 1, 3))
			worlds := slices.DeleteFunc([]int{2, 4, 8}, func(n int) bool { return h.GradientAccumulationSteps*h.MicroBatchSize%n != 0 })
			for j, world := range worlds {
				for k, strategy := range []string{"no_shard", "zero_1", "shard_grad_op", "full_shard", "hybrid_shard", "hybrid_shard_zero2"} {
					if !crossAll() && (i+k)%len(worlds) != j {
						continue
					}
					cfg.Strategy = strategy
					one.equal(t, fmt.Sprintf("%s on %d ranks", strategy, world), g.run(t, world, cfg, 1, 1))
				}
			}
		})
	}
}

// Dropout depends on the row's key, not on the rank or the recomputation.
func TestSameBitsWithDropout(t *testing.T) {
	for name, changes := range map[string]map[string]any{
		"gpt2":     {"embd_pdrop": 0.1, "attn_pdrop": 0.2, "resid_pdrop": 0.1},
		"bert-cls": {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.2, "classifier_dropout": 0.3},
		"qwen2":    {"attention_dropout": 0.2},
	} {
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, filepath.Join("testdata", "golden", name))
			h := &g.Hyperparameters
			h.Steps = 3
			cfg := parallel.Default()
			plain := g.run(t, 1, cfg, 1, 1)
			g.changes = changes
			one := g.run(t, 1, cfg, 1, 1)
			if one.loss[1] == plain.loss[1] {
				t.Errorf("no dropout: loss %v", one.loss)
			}
			one.equal(t, "2 threads", g.run(t, 1, cfg, 1, 2))
			// A larger micro-batch has the same dropout; only the order of sums differs.
			for i, loss := range g.run(t, 1, cfg, 2, 1).loss {
				if !near(loss, one.loss[i], 1e-4) {
					t.Errorf("step %d: loss %v with micro-batches of 2, %v of 1", i+1, loss, one.loss[i])
				}
			}
			for _, strategy := range []string{"no_shard", "full_shard"} {
				cfg.Strategy = strategy
				one.equal(t, strategy+" on 4 ranks", g.run(t, 4, cfg, 1, 1))
			}
			g.recompute.Enabled = true
			one.equal(t, "recomputed", g.run(t, 2, cfg, 1, 1))
		})
	}
}

// Without world_invariant, sums agree up to rounding.
func TestLocalAccumulation(t *testing.T) {
	g := readGolden(t, filepath.Join("testdata", "golden", "llama-gqa-accum"))
	g.Hyperparameters.Steps = 3
	cfg := parallel.Default()
	one := g.run(t, 1, cfg, 1, 1)
	cfg.WorldInvariant = false
	for _, strategy := range []string{"no_shard", "zero_1", "shard_grad_op", "full_shard", "hybrid_shard", "hybrid_shard_zero2"} {
		cfg.Strategy = strategy
		r := g.run(t, 4, cfg, 1, 1)
		for i := range r.loss {
			if !near(r.loss[i], one.loss[i], 1e-6) || !near(r.norm[i], one.norm[i], 1e-5) {
				t.Errorf("%s: step %d: loss %v grad_norm %v, on one rank %v %v", strategy, i+1, r.loss[i], r.norm[i], one.loss[i], one.norm[i])
			}
		}
	}
}

// Between steps a rank holds 1/N of the state plus padding; unsharded parameters are those of the units
// in use.
func TestMemoryIsDivided(t *testing.T) {
	g := readGolden(t, filepath.Join("testdata", "golden", "llama-gqa-accum"))
	g.Hyperparameters.Steps = 1
	cfg := parallel.Default()
	whole := g.run(t, 1, cfg, 1, 1).memory
	part := g.run(t, 4, cfg, 1, 1).memory
	units := 6
	for _, c := range []tensor.Category{tensor.Params, tensor.Grads, tensor.Optimizer} {
		n := int64(4)
		if c == tensor.Optimizer {
			n *= 2
		}
		padding := int64(units) * n * tensor.SumBlock
		if got, limit := part.Live[c], whole.Live[c]/4+padding; got > limit {
			t.Errorf("%v: %d bytes on each of 4 ranks, %d on one, want up to %d", c, got, whole.Live[c], limit)
		}
	}
	if part.Live[tensor.Gathered] != 0 || part.Live[tensor.Buckets] != 0 || part.Live[tensor.Activations] != 0 {
		t.Errorf("after a step %d gathered, %d bucket and %d activation bytes are still held", part.Live[tensor.Gathered], part.Live[tensor.Buckets], part.Live[tensor.Activations])
	}
	largest := int64(500*96) * 4 // the embedding
	layer := int64(96*96*2+2*96*32+3*96*256+2*96) * 4
	if got, limit := part.Peak[tensor.Gathered], largest+2*layer+4*4*tensor.SumBlock*4; got > limit {
		t.Errorf("%d bytes were gathered at one time, more than the embedding and two layers (%d)", got, limit)
	}
}
