package monitor

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"time"

	"trireme/trace"
)

// Record describes a training step.
type Record struct {
	Step     int64 // counts from 1
	MaxSteps int64 // of the run; 0 if unknown
	Epoch    float64
	Time     time.Time // end of the step
	Run      string    // id of the run; empty if unknown

	Loss     float64 // mean over the step's label tokens
	GradNorm float64 // before clipping
	LR       float64 // of this step
	Skipped  bool    // the gradient was not finite and the step changed nothing

	LossScale float64 // of this step; 0: none

	// Means are the model's own metrics by name, each a mean over label tokens.
	Means map[string]float64

	// EpochLoss is the mean loss over the label tokens of an epoch without skipped steps, in the
	// record of the epoch's last step; nil in others.
	EpochLoss *float64

	// Samples, Tokens and LabelTokens count the rows, tokens and tokens with a label of this step over
	// all ranks. A classifier's label tokens are its rows with a label.
	Samples, Tokens, LabelTokens int64

	// StepSeconds is the time from the request for the step's batch to its result. StepSecondsMean and
	// StepSecondsStd are its mean and standard deviation over the last 20 steps; both 0: unknown.
	StepSeconds, StepSecondsMean, StepSecondsStd float64

	// SaveSeconds and EvalSeconds are the times of checkpoints and evaluations between the step before and this
	// one.
	SaveSeconds, EvalSeconds float64

	// Split is where rank 0's StepSeconds went; nil if unknown.
	Split *trace.Split
	// CommSeconds is the time in which rank 0 ran collectives. Split.Comm and Split.Wait of it were exposed, the
	// rest was hidden behind computation.
	CommSeconds float64
	// CommOps sums rank 0's collectives by operation and axis: all_gather/shard.
	CommOps map[string]trace.CommOp

	// FLOPSPerSecond is the model's FLOPs for Tokens by StepSeconds, over all ranks; 0: unknown.
	FLOPSPerSecond float64
	// MFU is model FLOPs utilization, 0 to 1, as defined in the PaLM paper: the model's FLOPs for
	// Tokens over PeakFLOPS times StepSeconds; 0 if the peak is unknown. Padding and recomputation
	// do not count.
	MFU       float64
	PeakFLOPS float64 // of all ranks, FLOP/s; 0: unknown
	WorldSize int

	// CommFraction and DataFraction are the fractions of StepSeconds that this rank waited for
	// other ranks and for the loader, 0 to 1.
	CommFraction, DataFraction float64

	// Skew is the time of the slowest rank, SlowRank, over that of the median rank, each without waits for others;
	// 0 if unknown or for one rank.
	Skew     float64
	SlowRank int
	// Ranks has the times of every rank; nil for one rank, above MaxRanks, and on a device that compiles
	// programs.
	Ranks *Ranks

	// Memory and MemoryPeak are tensor bytes by category, at the end of the step and at its peak.
	// MemoryPeak's key "total" is the peak of the sum.
	Memory, MemoryPeak map[string]int64
	// Resident is the process memory; see ReadResident.
	Resident Resident
	// MemoryLimit is the memory limit of this process in bytes; 0 if unknown.
	MemoryLimit int64
	// Device is the state of the GPUs of rank 0's machine; nil without GPUs.
	Device *Device
	// Host is the state of rank 0's machine; nil before the first sample.
	Host *Host
}

// TokensPerSecond returns the throughput in tokens.
func (r Record) TokensPerSecond() float64 { return r.perSecond(r.Tokens) }

// LabelTokensPerSecond returns the throughput in label tokens.
func (r Record) LabelTokensPerSecond() float64 { return r.perSecond(r.LabelTokens) }

// SamplesPerSecond returns the throughput in rows.
func (r Record) SamplesPerSecond() float64 { return r.perSecond(r.Samples) }

func (r Record) perSecond(n int64) float64 {
	if r.StepSeconds == 0 {
		return 0
	}
	return float64(n) / r.StepSeconds
}

// HasUnlabeled reports whether tokens other than the last of each row have no label.
func (r Record) HasUnlabeled() bool { return r.Samples > 0 && r.LabelTokens < r.Tokens-r.Samples }

// Evaluation is the result of an evaluation.
type Evaluation struct {
	Step    int64 // steps done before it
	Time    time.Time
	Run     string // as in Record
	Loss    float64
	Tokens  int64 // label tokens
	Seconds float64
	// Accuracy is a classifier's accuracy, 0 to 1; nil for a language model.
	Accuracy  *float64
	MacroF1   *float64           // a classifier's F1 score averaged over labels; nil otherwise
	Means     map[string]float64 // as in Record
	WorldSize int
}

// Perplexity returns exp(Loss).
func (e Evaluation) Perplexity() float64 { return math.Exp(e.Loss) }

// AppendJSON appends r as a JSON object without a line end. Numbers parse back to the same float64. NaN
// and infinity are null, with a member "nonfinite": true.
func (r Record) AppendJSON(b []byte) []byte {
	w := object{b: append(b, '{')}
	w.integer("step", r.Step)
	w.float("loss", r.Loss)
	w.float("grad_norm", r.GradNorm)
	w.float("lr", r.LR)
	if r.LossScale > 0 {
		w.float("loss_scale", r.LossScale)
	}
	w.floats("means", r.Means)
	if r.EpochLoss != nil {
		w.float("epoch_loss", *r.EpochLoss)
	}
	w.integer("samples", r.Samples)
	w.integer("tokens", r.Tokens)
	w.integer("label_tokens", r.LabelTokens)
	w.float("samples_per_second", r.SamplesPerSecond())
	w.float("tokens_per_second", r.TokensPerSecond())
	w.float("label_tokens_per_second", r.LabelTokensPerSecond())
	w.float("step_seconds", r.StepSeconds)
	if r.StepSecondsMean > 0 {
		w.float("step_seconds_mean", r.StepSecondsMean)
		w.float("step_seconds_std", r.StepSecondsStd)
	}
	if r.SaveSeconds > 0 {
		w.float("save_seconds", r.SaveSeconds)
	}
	if r.EvalSeconds > 0 {
		w.float("eval_seconds_between", r.EvalSeconds)
	}
	if r.Split != nil {
		w.split("split", *r.Split)
	}
	if len(r.CommOps) > 0 {
		w.float("comm_seconds", r.CommSeconds)
		w.commOps("comm_ops", r.CommOps)
	}
	if r.FLOPSPerSecond > 0 {
		w.float("flops_per_second", r.FLOPSPerSecond)
	}
	if r.PeakFLOPS == 0 {
		w.raw("mfu", "null")
	} else {
		w.float("mfu", r.MFU)
		w.float("peak_flops", r.PeakFLOPS)
	}
	w.bytes("memory", r.Memory)
	w.bytes("memory_peak", r.MemoryPeak)
	if r.Resident.Now > 0 {
		w.integer("rss", r.Resident.Now)
		w.integer("rss_peak", r.Resident.Peak)
		w.integer("rss_shared", r.Resident.Shared)
	}
	w.integer("world_size", int64(r.WorldSize))
	if r.MemoryLimit > 0 {
		w.integer("memory_limit", r.MemoryLimit)
	}
	if r.Device != nil {
		w.raw("device", r.Device.json())
	}
	if r.Host != nil {
		w.marshal("host", r.Host)
	}
	if r.MaxSteps > 0 {
		w.integer("max_steps", r.MaxSteps)
	}
	w.float("comm_fraction", r.CommFraction)
	w.float("data_fraction", r.DataFraction)
	if r.Skew > 0 {
		w.float("skew", r.Skew)
		w.integer("slow_rank", int64(r.SlowRank))
	}
	if r.Ranks != nil {
		w.marshal("ranks", r.Ranks)
	}
	if r.Epoch > 0 {
		w.float("epoch", r.Epoch)
	}
	if r.Skipped {
		w.raw("skipped", "true")
	}
	w.run(r.Run)
	w.time(r.Time)
	return w.end()
}

// AppendJSON appends e as Record.AppendJSON does.
func (e Evaluation) AppendJSON(b []byte) []byte {
	w := object{b: append(b, '{')}
	w.integer("step", e.Step)
	w.float("eval_loss", e.Loss)
	if e.Accuracy != nil {
		w.float("accuracy", *e.Accuracy)
		if e.MacroF1 != nil {
			w.float("macro_f1", *e.MacroF1)
		}
	} else {
		w.float("perplexity", e.Perplexity())
	}
	w.floats("means", e.Means)
	w.integer("eval_tokens", e.Tokens)
	w.float("eval_seconds", e.Seconds)
	w.integer("world_size", int64(e.WorldSize))
	w.run(e.Run)
	w.time(e.Time)
	return w.end()
}

// object writes the members of a JSON object in order.
type object struct {
	b         []byte
	nonfinite bool
	any       bool
}

func (w *object) key(name string) {
	if w.any {
		w.b = append(w.b, ',')
	}
	w.any = true
	w.b = strconv.AppendQuote(w.b, name)
	w.b = append(w.b, ':')
}

func (w *object) raw(name, v string) {
	w.key(name)
	w.b = append(w.b, v...)
}

func (w *object) integer(name string, v int64) {
	w.key(name)
	w.b = strconv.AppendInt(w.b, v, 10)
}

func (w *object) float(name string, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		w.nonfinite = true
		w.raw(name, "null")
		return
	}
	w.key(name)
	w.b = appendFloat(w.b, v)
}

// appendFloat appends the shortest digits that parse back to v.
func appendFloat(b []byte, v float64) []byte {
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		return strconv.AppendFloat(b, v, 'e', -1, 64)
	}
	return strconv.AppendFloat(b, v, 'f', -1, 64)
}

func (w *object) bytes(name string, m map[string]int64) {
	w.key(name)
	w.b = append(w.b, '{')
	for i, k := range sortedKeys(m) {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = strconv.AppendQuote(w.b, k)
		w.b = append(w.b, ':')
		w.b = strconv.AppendInt(w.b, m[k], 10)
	}
	w.b = append(w.b, '}')
}

func (w *object) floats(name string, m map[string]float64) {
	if len(m) == 0 {
		return
	}
	inner := object{b: append([]byte{}, '{')}
	for _, k := range sortedKeys(m) {
		inner.float(k, m[k])
	}
	w.nonfinite = w.nonfinite || inner.nonfinite
	w.raw(name, string(append(inner.b, '}')))
}

func (w *object) run(id string) {
	if id != "" {
		w.raw("run", strconv.Quote(id))
	}
}

func (w *object) time(t time.Time) {
	if !t.IsZero() {
		w.raw("time", strconv.Quote(t.UTC().Format(time.RFC3339Nano)))
	}
}

func (w *object) end() []byte {
	if w.nonfinite {
		w.raw("nonfinite", "true")
	}
	return append(w.b, '}')
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// Finite reports whether the loss and the gradient norm are finite.
func (r Record) Finite() bool {
	return !slices.ContainsFunc([]float64{r.Loss, r.GradNorm}, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}
