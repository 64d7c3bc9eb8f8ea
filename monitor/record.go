package monitor

import (
	"math"
	"slices"
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
	// MemorySaveSeconds is the part of SaveSeconds that checkpoints in memory took.
	MemorySaveSeconds float64

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

// Finite reports whether the loss and the gradient norm are finite.
func (r Record) Finite() bool {
	return !slices.ContainsFunc([]float64{r.Loss, r.GradNorm}, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}

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
	Samples   []string // generated texts, with their prompts
}

// Perplexity returns exp(Loss).
func (e Evaluation) Perplexity() float64 { return math.Exp(e.Loss) }
