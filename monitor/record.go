package monitor

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"time"
)

// Record is what is known of one training step when it is over.
type Record struct {
	Step     int64 // counts from 1
	MaxSteps int64 // of the run; 0 if unknown
	Epoch    float64
	Time     time.Time // of the step's end
	Run      string    // identity of the run; empty if unknown

	Loss     float64 // mean over the step's label tokens
	GradNorm float64 // before clipping
	LR       float64 // that this step used
	Skipped  bool    // the gradient was not finite, so that the step changed nothing

	LossScale float64 // that the gradients of this step had; 0: none

	// Means are further numbers of the model, by name: means over the label tokens.
	Means map[string]float64

	// EpochLoss, of the step that ends an epoch, is the mean loss over the label tokens of all
	// its steps but the skipped ones; nil of other steps.
	EpochLoss *float64

	// Samples, Tokens and LabelTokens are of this step, over all ranks: rows, their tokens,
	// and those of them that have a label, over which the loss is the mean. A
	// classifier's label tokens are its rows with a label.
	Samples, Tokens, LabelTokens int64

	StepSeconds float64
	// MFU is the model's FLOPs for Tokens, as the PaLM paper counts them, as a share of what
	// PeakFLOPS could compute in StepSeconds, 0 to 1; 0: the peak is unknown. Padding does not
	// count as work, recomputation neither.
	MFU       float64
	PeakFLOPS float64 // of all ranks together, FLOP/s; 0: unknown
	WorldSize int

	// CommFraction and DataFraction are the parts of StepSeconds, 0 to 1, in which this rank
	// only waited for other ranks and for the loader.
	CommFraction, DataFraction float64

	// Memory and MemoryPeak are bytes by category, now and at most within the step (key
	// "total": at one moment).
	Memory, MemoryPeak map[string]int64
	// Resident is what the operating system counts; see ReadResident.
	Resident Resident
	// MemoryLimit is what this process may use, bytes; 0 if unknown.
	MemoryLimit int64
}

// TokensPerSecond is the speed in tokens.
func (r Record) TokensPerSecond() float64 { return r.perSecond(r.Tokens) }

// LabelTokensPerSecond is the speed in tokens that have a label.
func (r Record) LabelTokensPerSecond() float64 { return r.perSecond(r.LabelTokens) }

// SamplesPerSecond is the speed in rows.
func (r Record) SamplesPerSecond() float64 { return r.perSecond(r.Samples) }

func (r Record) perSecond(n int64) float64 {
	if r.StepSeconds == 0 {
		return 0
	}
	return float64(n) / r.StepSeconds
}

// hasUnlabeled says that some tokens have no label besides the last one of each row, which predicts
// nothing.
func (r Record) hasUnlabeled() bool { return r.Samples > 0 && r.LabelTokens < r.Tokens-r.Samples }

// Evaluation is the result of one evaluation.
type Evaluation struct {
	Step    int64 // after which it was made
	Time    time.Time
	Run     string // as Record's
	Loss    float64
	Tokens  int64 // label tokens
	Seconds float64
	// Accuracy is of a classifier, 0 to 1; nil for a language model, which has a perplexity,
	// exp(Loss).
	Accuracy  *float64
	MacroF1   *float64           // of a classifier: the mean over labels of the F1 score; nil otherwise
	Means     map[string]float64 // as Record's
	WorldSize int
}

// Perplexity is exp(Loss).
func (e Evaluation) Perplexity() float64 { return math.Exp(e.Loss) }

// AppendJSON adds r as one JSON object without a line end. Numbers have the digits that
// give the same float64 back. JSON has no NaN and no infinity: they are null, and
// "nonfinite": true says so.
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
	if r.MaxSteps > 0 {
		w.integer("max_steps", r.MaxSteps)
	}
	w.float("comm_fraction", r.CommFraction)
	w.float("data_fraction", r.DataFraction)
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

// AppendJSON adds e as one JSON object, as Record's does.
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

// object writes the members of a JSON object in the order they are given.
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

// appendFloat gives the shortest digits that read back as v.
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

// floats are a member that is an object, where m has any.
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

// finite says whether what a step computed can be drawn.
func (r Record) finite() bool {
	return !slices.ContainsFunc([]float64{r.Loss, r.GradNorm}, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}
