package trackers

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"trireme/monitor"
)

// kind is how the values of a metric are read.
type kind int

const (
	gauge   kind = iota
	counter      // grows while the run continues, from 0 at each start
	histogram
)

// metric describes a metric. name has dots, as OpenTelemetry has it; Prometheus adds the unit and _total.
type metric struct {
	name string
	unit string // UCUM: s, By, {token}
	kind kind
	help string
	keys []string // of its labels
}

// The metrics. Names are in base units.
var (
	mRun        = &metric{"trireme.run", "", gauge, "The run: its value is 1.", []string{"run", "name"}}
	mStep       = &metric{"trireme.step", "", gauge, "Steps done, including those before the run was resumed.", nil}
	mMaxSteps   = &metric{"trireme.max_steps", "", gauge, "Steps of the run.", nil}
	mSteps      = &metric{"trireme.steps", "", counter, "Steps since the start of the process.", nil}
	mSkipped    = &metric{"trireme.skipped_steps", "", counter, "Steps that changed nothing, because the loss or the gradient was not finite.", nil}
	mDuration   = &metric{"trireme.step.duration", "s", histogram, "Time of a step.", nil}
	mSplit      = &metric{"trireme.step.time", "s", counter, "Time of rank 0 by what it did.", []string{"part"}}
	mTokens     = &metric{"trireme.tokens", "", counter, "Tokens of all ranks.", nil}
	mLabels     = &metric{"trireme.label_tokens", "", counter, "Tokens with a label of all ranks.", nil}
	mSamples    = &metric{"trireme.samples", "", counter, "Rows of all ranks.", nil}
	mLoss       = &metric{"trireme.loss", "", gauge, "Loss of the last step.", nil}
	mLR         = &metric{"trireme.learning_rate", "", gauge, "Learning rate of the last step.", nil}
	mNorm       = &metric{"trireme.gradient_norm", "", gauge, "Norm of the gradient before clipping.", nil}
	mEpoch      = &metric{"trireme.epoch", "", gauge, "Epochs done.", nil}
	mFLOPS      = &metric{"trireme.flops_per_second", "", gauge, "Model FLOP/s of all ranks.", nil}
	mMFU        = &metric{"trireme.mfu.ratio", "", gauge, "Model FLOPs utilization, 0 to 1.", nil}
	mRanks      = &metric{"trireme.ranks", "", gauge, "Ranks of the run.", nil}
	mSkew       = &metric{"trireme.skew.ratio", "", gauge, "Time of the slowest rank over that of the median rank.", nil}
	mSlow       = &metric{"trireme.slow_rank", "", gauge, "The slowest rank.", nil}
	mRankTime   = &metric{"trireme.rank.time", "s", gauge, "Time of the last step of each rank: own, of it data, and waits for communication.", []string{"rank", "part"}}
	mMemory     = &metric{"trireme.memory", "By", gauge, "Tensor memory of rank 0 by category.", []string{"category"}}
	mPeak       = &metric{"trireme.memory.peak", "By", gauge, "Peak of the last step's tensor memory of rank 0 by category.", []string{"category"}}
	mResident   = &metric{"trireme.resident_memory", "By", gauge, "Resident memory of rank 0's process.", nil}
	mCollective = &metric{"trireme.collective", "s", counter, "Time of rank 0's collectives: that computation waited for, and hidden behind it.", []string{"op", "axis", "exposed"}}
	mCollBytes  = &metric{"trireme.collective.size", "By", counter, "Bytes of rank 0's collectives.", []string{"op", "axis"}}
	mCollCount  = &metric{"trireme.collectives", "", counter, "Collectives of rank 0.", []string{"op", "axis"}}
	mSaves      = &metric{"trireme.checkpoint", "s", counter, "Time of checkpoints.", nil}
	mEvals      = &metric{"trireme.evaluation", "s", counter, "Time of evaluations.", nil}
	mEvalLoss   = &metric{"trireme.evaluation.loss", "", gauge, "Loss of the last evaluation.", nil}
	mModel      = &metric{"trireme.model.value", "", gauge, "The model's own metrics, of the last step and evaluation.", []string{"name"}}
	mHost       = &metric{"trireme.host.value", "", gauge, "State of rank 0's machine: processors in use, bytes, bytes per second.", []string{"name"}}
	mDevice     = &metric{"trireme.device.value", "", gauge, "State of the GPUs of rank 0's machine.", []string{"name"}}
)

// all are the metrics in the order in which they are written.
var all = []*metric{
	mRun, mStep, mMaxSteps, mSteps, mSkipped, mDuration, mSplit, mTokens, mLabels, mSamples, mLoss, mLR, mNorm, mEpoch, mFLOPS, mMFU, mRanks, mSkew, mSlow,
	mRankTime, mMemory, mPeak, mResident, mCollective, mCollBytes, mCollCount, mSaves, mEvals, mEvalLoss, mModel, mHost, mDevice,
}

// bounds are the upper limits of the buckets of step times, in seconds. The last bucket has no limit.
var bounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25, 50, 100, 250, 1000}

// point is the value of a metric for one set of labels.
type point struct {
	labels []string // values of metric.keys
	value  float64
	counts []int64 // of a histogram: per bucket, with one more than bounds; value is the sum
}

// metrics holds the current values. It is a Sink of every step, and safe for concurrent use.
type metrics struct {
	mu     sync.Mutex
	values map[*metric]map[string]*point // by labels joined by a zero byte
}

func newMetrics(run Run) *metrics {
	m := &metrics{values: map[*metric]map[string]*point{}}
	m.set(mRun, 1, run.ID, run.Name)
	for _, c := range []*metric{mSteps, mSkipped, mTokens, mLabels, mSamples} {
		m.add(c, 0)
	}
	return m
}

func (m *metrics) at(of *metric, labels []string) *point {
	key := strings.Join(labels, "\x00")
	points := m.values[of]
	if points == nil {
		points = map[string]*point{}
		m.values[of] = points
	}
	p := points[key]
	if p == nil {
		p = &point{labels: labels}
		if of.kind == histogram {
			p.counts = make([]int64, len(bounds)+1)
		}
		points[key] = p
	}
	return p
}

func (m *metrics) set(of *metric, v float64, labels ...string) { m.at(of, labels).value = v }

func (m *metrics) add(of *metric, v float64, labels ...string) { m.at(of, labels).value += v }

func (m *metrics) observe(of *metric, v float64, labels ...string) {
	p := m.at(of, labels)
	i, _ := slices.BinarySearch(bounds, v) // a limit is in its bucket
	p.counts[i]++
	p.value += v
}

// Record counts a step.
func (m *metrics) Record(r monitor.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(mStep, float64(r.Step))
	m.set(mMaxSteps, float64(r.MaxSteps))
	m.add(mSteps, 1)
	if r.Skipped {
		m.add(mSkipped, 1)
	}
	m.observe(mDuration, r.StepSeconds)
	m.add(mTokens, float64(r.Tokens))
	m.add(mLabels, float64(r.LabelTokens))
	m.add(mSamples, float64(r.Samples))
	m.set(mLoss, r.Loss)
	m.set(mLR, r.LR)
	m.set(mNorm, r.GradNorm)
	m.set(mEpoch, r.Epoch)
	m.set(mRanks, float64(r.WorldSize))
	if r.FLOPSPerSecond > 0 {
		m.set(mFLOPS, r.FLOPSPerSecond)
	}
	if r.PeakFLOPS > 0 {
		m.set(mMFU, r.MFU)
	}
	m.add(mSaves, r.SaveSeconds)
	m.add(mEvals, r.EvalSeconds)
	m.times(r)
	m.state(r)
	return nil
}

func (m *metrics) times(r monitor.Record) {
	if r.Split != nil {
		for _, part := range monitor.SplitParts(*r.Split) {
			m.add(mSplit, part.Value, part.Tag)
		}
	}
	if r.Skew > 0 {
		m.set(mSkew, r.Skew)
		m.set(mSlow, float64(r.SlowRank))
	}
	for key, op := range r.CommOps {
		name, axis, _ := strings.Cut(key, "/")
		m.add(mCollective, op.Exposed, name, axis, "true")
		m.add(mCollective, max(0, op.Seconds-op.Exposed), name, axis, "false")
		m.add(mCollBytes, float64(op.Bytes), name, axis)
		m.add(mCollCount, float64(op.Count), name, axis)
	}
}

func (m *metrics) state(r monitor.Record) {
	for k, v := range r.Memory {
		m.set(mMemory, float64(v), k)
	}
	for k, v := range r.MemoryPeak {
		m.set(mPeak, float64(v), k)
	}
	if r.Resident.Now > 0 {
		m.set(mResident, float64(r.Resident.Now))
	}
	for k, v := range r.Means {
		m.set(mModel, v, monitor.EscapeControl(k))
	}
	for _, v := range r.Scalars() {
		if name, ok := strings.CutPrefix(v.Tag, "ranks/"); ok {
			if part, rank, ok := strings.Cut(name, "/"); ok {
				m.set(mRankTime, v.Value, rank, part)
			}
		} else if name, ok := strings.CutPrefix(v.Tag, "host/"); ok {
			m.set(mHost, v.Value, name)
		} else if name, ok := strings.CutPrefix(v.Tag, "device/"); ok {
			m.set(mDevice, v.Value, name)
		}
	}
}

// Evaluate keeps an evaluation.
func (m *metrics) Evaluate(e monitor.Evaluation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(mEvalLoss, e.Loss)
	for _, v := range e.Scalars() {
		if name, _ := strings.CutPrefix(v.Tag, "eval/"); name != "loss" {
			m.set(mModel, v.Value, v.Tag)
		}
	}
	return nil
}

// family is a metric with copies of its points, in the order of their labels.
type family struct {
	*metric
	points []point
}

// read returns the metrics that have values.
func (m *metrics) read() (out []family) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range all {
		f := family{metric: of}
		for _, key := range slices.Sorted(maps.Keys(m.values[of])) {
			p := *m.values[of][key]
			p.counts = slices.Clone(p.counts)
			f.points = append(f.points, p)
		}
		if len(f.points) > 0 {
			out = append(out, f)
		}
	}
	return out
}
