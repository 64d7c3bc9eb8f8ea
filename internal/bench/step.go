package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"trireme/collective"
	"trireme/data"
	"trireme/model"
	"trireme/model/bert"
	"trireme/model/gpt2"
	"trireme/model/llama"
	"trireme/monitor"
	"trireme/parallel"
	"trireme/tensor"
	"trireme/trace"
	"trireme/train"
)

// StepConfig is a model and batch shape.
type StepConfig struct {
	Family                                     model.Family
	Layers, Hidden, Heads, Intermediate, Vocab int
	T, B                                       int // tokens per row, rows per rank
	KVHeads                                    int // 0 is Heads
}

// StepConfigs are the shapes compared with PyTorch: A, B and C like Llama with an untied head, GPT-2
// with 124 million parameters, and a BERT-base classifier with dropout.
var StepConfigs = map[string]StepConfig{
	"A":           {llama.Family, 4, 256, 8, 688, 512, 256, 8, 0},
	"B":           {llama.Family, 6, 512, 8, 1376, 8192, 512, 4, 0},
	"C":           {llama.Family, 12, 768, 12, 2048, 32000, 512, 2, 0},
	"gpt2":        {gpt2.Family, 12, 768, 12, 3072, 50257, 256, 2, 0},
	"bert":        {bert.Family, 12, 768, 12, 3072, 30522, 128, 4, 0},
	"gpt2-1k":     {gpt2.Family, 12, 768, 12, 3072, 50257, 1024, 16, 0},
	"llama-1b":    {llama.Family, 16, 2048, 32, 8192, 32000, 1024, 8, 8},
	"llama-1b-4k": {llama.Family, 16, 2048, 32, 8192, 32000, 4096, 2, 8},
}

// Recomputations are named activation_checkpointing settings.
var Recomputations = map[string]train.Recompute{
	"":               {},
	"layers":         {Enabled: true},
	"every_2":        {Enabled: true, EveryNLayers: 2},
	"attention":      {Enabled: true, Part: "attention"},
	"mlp":            {Enabled: true, Part: "mlp"},
	"halves":         {Enabled: true, Part: "attention_and_mlp"},
	"keep_attention": {Enabled: true, Keep: "attention"},
	"keep_products":  {Enabled: true, Keep: "products"},
	"sqrt":           {Enabled: true, Segments: train.SqrtSegments},
	"sqrt_nested":    {Enabled: true, Segments: train.SqrtSegments, Nested: true},
	"disk":           {Enabled: true, Store: "disk", StorePath: "."},
}

// StepNames returns the keys of StepConfigs.
func StepNames() []string { return slices.Sorted(maps.Keys(StepConfigs)) }

// StepOptions configure Step.
type StepOptions struct {
	Config        string // a key of StepConfigs
	Strategy      string // a strategy of package parallel
	Steps, Warmup int
	Clip          float64 // maximum gradient norm; 0 does not clip
	Recompute     string  // a key of Recomputations; "" is off
	Precision     parallel.Precision
	Threads       int     // per rank, as the backend was opened
	PeakGFLOPS    float64 // of a rank, for MFU; 0 is measured on cpu and unknown elsewhere
	// Began is the start time for StepReport.FirstStepS.
	Began time.Time
	// Trace records the rank's spans, as in a run; nil records none.
	Trace *trace.Recorder
}

// StepReport has the keys of the PyTorch script.
type StepReport struct {
	Config         string  `json:"config"`
	Strategy       string  `json:"strategy"`
	Threads        int     `json:"threads"`
	World          int     `json:"world"`
	TokensPerS     float64 `json:"tokens_per_s"`      // by the median step, over all ranks
	TokensPerSBest float64 `json:"tokens_per_s_best"` // by the shortest
	StepMS         float64 `json:"step_ms"`
	StepMSMin      float64 `json:"step_ms_min"`
	StepMSMax      float64 `json:"step_ms_max"`
	CommMS         float64 `json:"comm_ms"` // median time a step waits for communication
	// Split is where the mean step's time went on the calling rank, in seconds; nil without StepOptions.Trace.
	Split        *trace.Split `json:"split,omitempty"`
	GFLOPS       float64      `json:"gflops"`        // attention counted in full
	GFLOPSCausal float64      `json:"gflops_causal"` // without attention's masked half
	MFU          *float64     `json:"mfu"`
	PeakGFLOPS   float64      `json:"peak_gflops"` // of all ranks, measured after the steps
	Params       int64        `json:"params"`
	ParamsMatMul int64        `json:"params_matmul"`
	RSSMiB       int64        `json:"rss_mib"`      // peak of the calling rank; 0 if unknown
	FirstStepS   float64      `json:"first_step_s"` // from Began to the end of the first step
	LossFirst    float64      `json:"loss_first"`
	LossLast     float64      `json:"loss_last"`
	Steps        int          `json:"steps"`
	DType        string       `json:"dtype"` // of parameters and activations
	Device       string       `json:"device"`
	// Of a device that compiles programs; 0 elsewhere.
	CompileS        float64 `json:"compile_s,omitempty"`         // of all programs, or to load them
	CompiledPeakMiB int64   `json:"compiled_peak_mib,omitempty"` // largest peak of a program
	DevicePeakMiB   int64   `json:"device_peak_mib,omitempty"`   // allocated, as the device counts; 0 if it does not
}

// Step measures training steps on random tokens. Every rank calls it with its backend b of o.Threads
// threads.
func Step(ctx context.Context, b tensor.Backend, w collective.World, o StepOptions) (r StepReport, err error) {
	c, ok := StepConfigs[o.Config]
	if !ok {
		return StepReport{}, fmt.Errorf("bench: config %q is not one of %s", o.Config, strings.Join(StepNames(), ", "))
	}
	a, err := o.build(ctx, b, w, c)
	if err != nil {
		return StepReport{}, err
	}
	st, e, info := a.Stepper, a.Engine, a.Model.Info()
	defer func() {
		e.Close()
		err = errors.Join(err, st.Close())
	}()
	batches := c.batches(info, w.Rank())
	var times, waits []float64
	r = StepReport{Config: o.Config, Strategy: o.Strategy, DType: o.Precision.Param.String(), Threads: o.Threads, World: w.Size(), Steps: o.Steps, Device: b.Name()}
	ahead := 0 // steps enqueued before a result is read
	if tensor.Async(b) {
		ahead = 1
	}
	st.SetTrace(o.Trace)
	split := newSplitter(o.Trace)
	last, all := time.Now(), o.Warmup+o.Steps
	for i, read := 0, 0; read < all; i++ {
		if i < all {
			if err := st.Step(ctx, batches[i%len(batches)], func(int) float64 { return 3e-4 }); err != nil {
				return StepReport{}, err
			}
		}
		if i-read < ahead && i < all-1 {
			continue
		}
		loss := st.Result().Loss
		took := time.Since(last)
		last = time.Now()
		if read == 0 {
			r.FirstStepS, r.LossFirst = time.Since(o.Began).Seconds(), loss
		}
		if read >= o.Warmup {
			times, waits = append(times, took.Seconds()), append(waits, e.Waited().Seconds())
			r.Split = split.add()
		} else {
			split.skip()
		}
		r.LossLast = loss
		read++
	}
	if err := e.Sync(); err != nil {
		return StepReport{}, err
	}
	if res, err := monitor.ReadResident(); err == nil {
		r.RSSMiB = res.Peak >> 20
	}
	r.PeakGFLOPS = o.PeakGFLOPS * float64(w.Size())
	if r.PeakGFLOPS == 0 && r.Device == "cpu" {
		r.PeakGFLOPS = Peak(o.Threads, o.Precision.Param) * float64(w.Size())
	}
	for _, p := range tensor.Compiled(b) {
		r.CompileS += p.Seconds
		r.CompiledPeakMiB = max(r.CompiledPeakMiB, p.PeakBytes>>20)
	}
	if d, ok := b.(interface{ PeakBytes() int64 }); ok {
		r.DevicePeakMiB = d.PeakBytes() >> 20
	}
	r.sum(c, info, times, waits)
	r.Params = model.CountParams(a.Model)
	return r, nil
}

// TrainConfig returns the run configuration of these steps.
func (o StepOptions) TrainConfig() train.Config {
	cfg := train.Default()
	cfg.Parallel.Strategy, cfg.Precision.ParamDType, cfg.Recompute = o.Strategy, o.Precision.Param.String(), Recomputations[o.Recompute]
	cfg.Training.MicroBatchSize, cfg.Training.MaxGradNorm = StepConfigs[o.Config].B, o.Clip
	return cfg
}

func (o StepOptions) build(ctx context.Context, b tensor.Backend, w collective.World, c StepConfig) (*train.Components, error) {
	config, err := c.Config()
	if err != nil {
		return nil, err
	}
	a, err := o.TrainConfig().Build(b, config, c.T, train.Ranks{Ranks: w}, true)
	if err != nil {
		return nil, err
	}
	a.Engine.Init(1234)
	if err := a.Engine.Refresh(ctx); err != nil {
		a.Engine.Close()
		return nil, errors.Join(err, a.Stepper.Close())
	}
	return a, nil
}

// Config returns the model as in config.json.
func (c StepConfig) Config() (*model.Config, error) {
	var config any
	switch c.Family.Name {
	case gpt2.Family.Name:
		config = gpt2.Config{
			Architectures: []string{"GPT2LMHeadModel"}, ActivationFunction: "gelu_new", VocabSize: c.Vocab, NEmbd: c.Hidden, NLayer: c.Layers,
			NHead: c.Heads, NInner: c.Intermediate, NPositions: 1024, LayerNormEpsilon: 1e-5, InitializerRange: 0.02, TieWordEmbeddings: true, ScaleAttnWeights: true,
		}
	case bert.Family.Name:
		config = bert.Config{
			Architectures: []string{"BertForSequenceClassification"}, HiddenAct: "gelu", VocabSize: c.Vocab, HiddenSize: c.Hidden, IntermediateSize: c.Intermediate,
			NumHiddenLayers: c.Layers, NumAttentionHeads: c.Heads, MaxPositionEmbeddings: 512, TypeVocabSize: 2, LayerNormEps: 1e-12,
			HiddenDropoutProb: 0.1, AttentionProbsDropoutProb: 0.1, InitializerRange: 0.02,
		}
	default:
		config = llama.Config{
			Architectures: []string{"LlamaForCausalLM"}, ModelType: "llama", HiddenAct: "silu",
			VocabSize: c.Vocab, HiddenSize: c.Hidden, IntermediateSize: c.Intermediate, NumHiddenLayers: c.Layers,
			NumAttentionHeads: c.Heads, NumKeyValueHeads: cmp.Or(c.KVHeads, c.Heads), HeadDim: c.Hidden / c.Heads, RMSNormEps: 1e-5,
			RopeTheta: 10000, MaxPositionEmbeddings: c.T, InitializerRange: 0.02,
		}
	}
	b, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	return model.Registry{c.Family}.ParseConfig("bench step", b)
}

func (c StepConfig) batches(info model.Info, rank int) [][]data.MicroBatch {
	rng := rand.New(rand.NewPCG(7, uint64(rank)))
	out := make([][]data.MicroBatch, 4)
	for i := range out {
		mb := data.UniformMicroBatch(c.B, c.B*c.T, c.T, data.Info{Classes: info.Labels > 0})
		for b := range c.B {
			row := make([]int32, c.T+1)
			for j := range row {
				row[j] = rng.Int32N(int32(c.Vocab))
			}
			copy(mb.InputIDs[b*c.T:], row[:c.T])
			copy(mb.Targets[b*c.T:], row[1:])
			if mb.Classes != nil {
				mb.Classes[b] = rng.Int32N(int32(info.Labels))
			}
		}
		out[i] = []data.MicroBatch{mb}
	}
	return out
}

func (r *StepReport) sum(c StepConfig, info model.Info, times, waits []float64) {
	tokens := float64(c.B * c.T * r.World)
	median := Median(times)
	r.TokensPerS, r.TokensPerSBest = tokens/median, tokens/slices.Min(times)
	r.StepMS, r.StepMSMin, r.StepMSMax = 1e3*median, 1e3*slices.Min(times), 1e3*slices.Max(times)
	r.CommMS = 1e3 * Median(waits)
	r.ParamsMatMul = info.MatMulParams + info.HeadParams
	attention := float64(info.Layers) * float64(info.Heads*info.HeadDim) * float64(c.T)
	r.GFLOPS = (6*float64(r.ParamsMatMul) + 12*attention) * tokens / median / 1e9
	r.GFLOPSCausal = (6*float64(r.ParamsMatMul) + 6*attention) * tokens / median / 1e9
	if r.PeakGFLOPS > 0 {
		mfu := r.GFLOPS / r.PeakGFLOPS
		r.MFU = &mfu
	}
}

// Median returns the median of v, which it leaves unchanged; the mean of the middle two if len(v) is even.
func Median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	if n == 0 {
		return 0
	}
	return (s[(n-1)/2] + s[n/2]) / 2
}
