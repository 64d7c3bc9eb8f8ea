package train

import (
	"errors"
	"os"
	"time"

	"trireme/checkpoint"
	"trireme/collective"
	"trireme/data"
	"trireme/device"
	"trireme/flight"
	"trireme/model"
	"trireme/monitor"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
	"trireme/trace"
)

// Deps are the dependencies of a run besides its configuration.
type Deps struct {
	Registry     model.Registry          // model families by name in config.json
	Model        *model.Config           // replaces the configured model; nil reads that
	World        collective.World        // closed by the caller
	ProcessGroup checkpoint.ProcessGroup // of the same ranks
	// Sink opens the record sink once the step to resume after is known; nil for none. Run.Close
	// closes it.
	Sink func(resumed int64) (monitor.Sink, error)
	// Stop reports whether the run should stop after the current step; nil is never.
	Stop func() bool
	// Checkpoint is a directory whose parameters Evaluate loads instead of the model's files.
	Checkpoint string
	// HostMemory is the unnamed file of this machine's launcher for checkpoints in memory (checkpoint.Memory); nil: none
	// are saved there. LocalRank is this rank's number on the machine.
	HostMemory *os.File
	LocalRank  int
	// Restart counts the starts of a job by its launcher, from 0. Later ones resume from the newest checkpoint
	// of their run, if it has one.
	Restart int
	// Hooks run after each step, the same on all ranks.
	Hooks []Hook
	// Trial runs are only measured: they evaluate and save nothing.
	Trial bool
	// Tokenizing receives tokenization progress; nil ignores it.
	Tokenizing func(data.Progress)
	// LocalRanks is the number of ranks that share this machine's processors; 0 is 1. Hybrid sharding
	// takes 0 as all ranks on one machine.
	LocalRanks int
	// Process is this process's part of the job, for devices that its ranks share.
	Process device.Process
	// Plan returns the peak memory of a rank for rows of up to positions tokens and micro-batches
	// with the fields of rows; nil if unknown.
	Plan func(config *model.Config, positions int, rows data.Info) (tensor.Usage, error)
	// Deadline is when the job is killed from outside; zero if unknown.
	Deadline time.Time
	// RankName names a rank with its host for notes; nil uses its number.
	RankName func(rank int) string
	// Recorder records this rank's activity; nil records nothing.
	Recorder *flight.Recorder
	// Trace records this rank's spans, from which rank 0's records have the split of a step's time; nil records
	// nothing.
	Trace *trace.Recorder
	// Tracer keeps spans of steps; nil for none.
	Tracer Tracer
	// PeakFLOPS is the peak FLOP/s of one rank, for MFU; 0 is unknown.
	PeakFLOPS float64
	// Device returns the state of this machine's GPUs for records; nil for none.
	Device func() *monitor.Device
	// Host returns the state of this machine for records; nil for none.
	Host func() *monitor.Host
	// Run is the run's id in checkpoints and records; empty uses the resumed checkpoint's or a new
	// one.
	Run string
	// Resolved is the full configuration as text, stored in checkpoints.
	Resolved string
	device   device.Device // replaces the configured device; nil opens that
}

// Run is one rank of a training run. It is used by one goroutine.
type Run struct {
	Config Config
	deps   Deps

	config  *model.Config
	backend device.Device
	model   model.Model
	info    model.Info
	needs   model.Info // info adjusted for frozen parameters
	engine  *parallel.Engine
	stepper *Stepper
	loader  *data.Loader
	sets    *data.Sets
	prompts *prompts // nil without training.eval_prompts
	store   *checkpoint.Store
	copies  copies
	memory  *checkpoint.Store // in the memory of hosts; nil without
	sink    monitor.Sink
	peak    tensor.Usage // over all steps

	notFinite string // initial weights that are not finite

	pressure pressure
	slow     slowRanks
	window   window
	between  between
	spans    spans

	schedule  optim.Schedule
	accum     int
	evalEvery int64 // steps; 0: at the end
	saving    saving
	writing   [numSaves]*writing // checkpoints that are written in the background; nil for none
	snapshot  []byte             // the memory of the one on disk
	limit     timeLimit
	state     progress
	asked     votes // in the results read; they take effect when no step is in flight
	settled   bool  // no step is in flight
	compiled  int   // programs that noteCompiled has reported
	traced    int64 // steps that a rank asks to trace since the last traceStep
}

// progress is the trainer state in a checkpoint.
type progress struct {
	Step    int64      `json:"step"`    // steps done, including skipped ones
	Updates int        `json:"updates"` // steps that changed the parameters
	Skipped int        `json:"skipped"` // consecutive skipped steps
	Data    data.State `json:"data"`
	// Inputs fingerprints the data and the tokenizer; MaxSteps is the length of the schedule; Machine is
	// rank 0's device.Config.Kind. They are zero in checkpoints of older versions.
	Inputs   data.Fingerprint   `json:"inputs,omitzero"`
	MaxSteps int                `json:"max_steps,omitzero"`
	Machine  string             `json:"machine,omitzero"`
	Scaler   *optim.ScalerState `json:"loss_scaler,omitempty"`
	Best     *best              `json:"best,omitempty"`
	Epoch    epochLoss          `json:"epoch,omitzero"`
	// Recomputing reports that memory_threshold has started recomputation.
	Recomputing bool `json:"relieved,omitempty"`
}

// ErrStopped is returned by a run that stopped on request after saving its state.
var ErrStopped = errors.New("stopped early; the state is saved")

// ErrNotFinite is returned by all ranks at the same step if the loss, the gradient or a weight is not
// finite.
var ErrNotFinite = checkpoint.ErrNotFinite

// Done reports whether all steps are done.
func (r *Run) Done() bool { return r.state.Step >= int64(r.Config.Training.MaxSteps) }

// record describes a step from began to ended (trace.Now), which waited for its batch.
func (r *Run) record(o StepResult, began, ended int64, data time.Duration) monitor.Record {
	s := time.Duration(ended - began).Seconds()
	tokens, flops := o.TotalTokens()
	rec := monitor.Record{
		Step: r.state.Step, MaxSteps: int64(r.Config.Training.MaxSteps), Time: time.Now(), Run: r.deps.Run,
		Epoch: float64(r.state.Step) / float64(r.loader.StepsPerEpoch()),
		Loss:  o.Loss, Means: o.means(r.info.Sums), GradNorm: o.GradNorm, LR: o.LR, Skipped: !o.Applied,
		Samples: r.rows(), Tokens: tokens, LabelTokens: o.Tokens, StepSeconds: s, WorldSize: r.deps.World.Size(),
		CommFraction: r.engine.Waited().Seconds() / s, DataFraction: data.Seconds() / s,
	}
	if o.LossScale != nil {
		rec.LossScale = o.LossScale.Scale
	}
	rec.StepSecondsMean, rec.StepSecondsStd = r.window.add(s)
	rec.SaveSeconds, rec.MemorySaveSeconds, rec.EvalSeconds = r.between.save.Seconds(), r.between.memory.Seconds(), r.between.eval.Seconds()
	r.between.save, r.between.memory, r.between.eval = 0, 0, 0
	r.addTimes(&rec, o.Times(), began, ended)
	rec.FLOPSPerSecond = flops / s
	if rec.PeakFLOPS = r.deps.PeakFLOPS * float64(rec.WorldSize); rec.PeakFLOPS > 0 {
		rec.MFU = rec.FLOPSPerSecond / rec.PeakFLOPS
	}
	use := r.backend.Meter().Read()
	r.peak, r.pressure.used = maxUsage(r.peak, use), use.PeakTotal
	rec.Memory, rec.MemoryPeak = map[string]int64{}, map[string]int64{"total": use.PeakTotal}
	for c := range tensor.NumCategories {
		rec.Memory[c.String()], rec.MemoryPeak[c.String()] = use.Live[c], use.Peak[c]
	}
	if r.deps.Device != nil {
		rec.Device = r.deps.Device()
	}
	if r.deps.Host != nil {
		rec.Host = r.deps.Host()
	}
	rec.Resident, _ = monitor.ReadResident() // zero if the operating system does not report it
	return rec
}

func (r *Run) flops(b *data.Batch) float64 {
	n := r.needs.FLOPs(0, b.LabelCount)
	b.Documents(func(tokens int) { n += r.needs.FLOPs(int64(tokens), 0) })
	return n
}

func (r *Run) rows() int64 {
	return int64(r.Config.Training.rows(r.accum, r.deps.World.Size()))
}

// Model returns the network.
func (r *Run) Model() model.Model { return r.model }

// Close stops the run's goroutines and frees its memory. The world stays open.
func (r *Run) Close() error {
	var errs []error
	for _, w := range r.writing { // they read the state
		if w != nil {
			w.Abort()
		}
	}
	if r.copies.running != nil {
		r.copies.running.Abort()
	}
	if r.loader != nil {
		errs = append(errs, r.loader.Close())
	}
	if r.sets != nil {
		errs = append(errs, r.sets.Close())
	}
	if r.memory != nil {
		errs = append(errs, r.memory.Close())
	}
	errs = append(errs, r.sink.Close())
	if r.engine != nil {
		errs = append(errs, r.engine.Close(), r.stepper.Close())
	}
	if r.backend != nil {
		errs = append(errs, r.backend.Close())
	}
	return errors.Join(errs...)
}
