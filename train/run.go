package train

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"trireme/checkpoint"
	"trireme/collective"
	"trireme/data"
	"trireme/device"
	"trireme/fault"
	"trireme/model"
	"trireme/monitor"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
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
	// Hooks run after each step, the same on all ranks.
	Hooks []Hook
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
	// PeakFLOPS is the peak FLOP/s of one rank, for MFU; 0 is unknown.
	PeakFLOPS float64
	// Run is the run's id in checkpoints and records; empty uses the resumed checkpoint's or a new
	// one.
	Run string
	// Resolved is the full configuration as text, stored in checkpoints.
	Resolved string
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
	store   *checkpoint.Store
	sink    monitor.Sink
	peak    tensor.Usage // over all steps

	notFinite string // initial weights that are not finite

	pressure pressure

	schedule  optim.Schedule
	accum     int
	evalEvery int64    // steps; 0: at the end
	saveEvery [2]int64 // steps: save_every_n_steps and save_every_n_epochs; 0: at the end
	state     progress
	stopped   bool
}

// progress is the trainer state in a checkpoint.
type progress struct {
	Step    int64      `json:"step"`    // steps done, including skipped ones
	Updates int        `json:"updates"` // steps that changed the parameters
	Skipped int        `json:"skipped"` // consecutive skipped steps
	Data    data.State `json:"data"`
	// Inputs fingerprints the data and the tokenizer; MaxSteps is the length of the schedule. Both
	// are zero in checkpoints of older versions.
	Inputs   data.Fingerprint   `json:"inputs,omitzero"`
	MaxSteps int                `json:"max_steps,omitzero"`
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

// Steps runs one step per iteration until the run ends. Records are of this rank, and were passed to
// the sink. An error, including ErrStopped, ends the iteration.
func (r *Run) Steps(ctx context.Context) iter.Seq2[monitor.Record, error] {
	return func(yield func(monitor.Record, error) bool) {
		hooks := r.hooks()
		for !r.Done() {
			rec, err := r.step(ctx)
			for i := 0; i < len(hooks) && err == nil; i++ {
				err = hooks[i].AfterStep(ctx, r, rec)
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// Train runs all steps and loads the best weights if the configuration asks for them. It is an error
// if every step was skipped.
func (r *Run) Train(ctx context.Context) error {
	for _, err := range r.Steps(ctx) {
		if err != nil {
			return err
		}
	}
	if r.state.Updates == 0 && r.state.Step > 0 {
		return fault.Try(fmt.Errorf("train: all %d steps were skipped because the loss or gradient is %w; no model is exported", r.state.Step, ErrNotFinite), "%s", r.nonFiniteAdvice())
	}
	return r.loadBest(ctx)
}

func (r *Run) step(ctx context.Context) (monitor.Record, error) {
	began := time.Now()
	r.backend.Meter().ResetPeak()
	batch, err := r.loader.Next(ctx)
	if err != nil {
		return monitor.Record{}, input(err)
	}
	waited := time.Since(began)
	if r.deps.Stop() {
		r.engine.Vote(parallel.VoteStop)
	}
	r.engine.CountTokens(batch.Tokens, r.flops(batch))
	r.voteRecompute()
	if err := r.stepper.Step(ctx, batch.Micro, r.schedule.At); err != nil {
		return monitor.Record{}, fmt.Errorf("train: rank %d, step %d: %w", r.deps.World.Rank(), r.state.Step+1, err)
	}
	o := r.stepper.Result()
	r.state.Scaler = r.stepper.LossScale()
	r.stopped = o.Votes(parallel.VoteStop) > 0
	r.state.Step++
	r.state.Data = r.loader.State()
	switch {
	case o.Applied:
		r.state.Updates++
		r.state.Skipped = 0
	case !r.stepper.overflowed(o):
		r.state.Skipped++
	}
	rec := r.record(o, time.Since(began), waited)
	rec.EpochLoss = r.state.Epoch.add(o, rec.Step, r.loader.StepsPerEpoch())
	if err := r.sink.Record(rec); err != nil {
		return rec, err
	}
	if err := r.startRecompute(o.Votes(parallel.VoteLowMemory)); err != nil {
		return rec, err
	}
	if r.state.Skipped > r.Config.Training.MaxSkippedSteps {
		// All ranks fail at this step; settle first, since others may still communicate.
		return rec, errors.Join(fault.Try(fmt.Errorf("train: step %d: loss %.4g, gradient norm %.4g: %w in %d consecutive steps, all skipped", rec.Step, rec.Loss, rec.GradNorm, ErrNotFinite, r.state.Skipped), "%s", r.nonFiniteAdvice()), r.engine.Sync())
	}
	return rec, nil
}

func (r *Run) record(o StepResult, took, data time.Duration) monitor.Record {
	s := took.Seconds()
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
	if rec.PeakFLOPS = r.deps.PeakFLOPS * float64(rec.WorldSize); rec.PeakFLOPS > 0 {
		rec.MFU = flops / s / rec.PeakFLOPS
	}
	use := r.backend.Meter().Read()
	r.peak, r.pressure.used = maxUsage(r.peak, use), use.PeakTotal
	rec.Memory, rec.MemoryPeak = map[string]int64{}, map[string]int64{"total": use.PeakTotal}
	for c := range tensor.NumCategories {
		rec.Memory[c.String()], rec.MemoryPeak[c.String()] = use.Live[c], use.Peak[c]
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
	if r.loader != nil {
		errs = append(errs, r.loader.Close())
	}
	if r.sets != nil {
		errs = append(errs, r.sets.Close())
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
