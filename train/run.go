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

// Deps is what a program gives a run besides its configuration.
type Deps struct {
	Registry     model.Registry          // the families that config.json may name
	Model        *model.Config           // in place of the one that the configuration points to; nil reads that
	World        collective.World        // closed by the caller
	ProcessGroup checkpoint.ProcessGroup // of the same ranks
	// Sink opens what is told of every step, once it is known after which step the run goes
	// on; nil for nobody. Close closes it.
	Sink func(resumed int64) (monitor.Sink, error)
	// Stop says that the run should end after the step that is under way. nil is never.
	Stop func() bool
	// Checkpoint is a directory whose parameters Evaluate reads, in place of the model's files.
	Checkpoint string
	// Hooks run after each step, the same on all ranks.
	Hooks []Hook
	// Tokenizing is called with the progress as files become tokens; nil for nobody.
	Tokenizing func(data.Progress)
	// LocalRanks is how many ranks share this machine's processors; 0 is 1, and hybrid sharding takes
	// it as all on one machine.
	LocalRanks int
	// Plan says what a rank will use at most for rows of so many positions, of which
	// micro-batches have what rows says; nil where that is not known.
	Plan func(config *model.Config, positions int, rows data.Info) (tensor.Usage, error)
	// PeakFLOPS is what one rank's threads can do in a second, for MFU; 0 is unknown.
	PeakFLOPS float64
	// Run is the identity of the run, which rank 0's checkpoints and records carry; empty: that of
	// the checkpoint that the run goes on from, or a new one.
	Run string
	// Resolved is the whole configuration as text, kept in checkpoints.
	Resolved string
}

// Run is one rank's part of a training run. It is used by one goroutine.
type Run struct {
	Config Config
	deps   Deps

	config  *model.Config
	backend device.Device
	model   model.Model
	info    model.Info
	needs   model.Info // info, with what is frozen
	engine  *parallel.Engine
	stepper *Stepper
	loader  *data.Loader
	sets    *data.Sets
	store   *checkpoint.Store
	sink    monitor.Sink
	peak    tensor.Usage // over all steps

	notFinite string // which of the weights that the run was given are not finite

	pressure pressure

	schedule  optim.Schedule
	accum     int
	evalEvery int64    // steps; 0: at the end
	saveEvery [2]int64 // in steps: every n of them, and every n epochs; 0: at the end
	state     progress
	stopped   bool
}

// progress is what a checkpoint stores besides tensors.
type progress struct {
	Step    int64      `json:"step"`    // steps done, those that were skipped too
	Updates int        `json:"updates"` // steps that changed the parameters
	Skipped int        `json:"skipped"` // in a row, up to now
	Data    data.State `json:"data"`
	// Inputs are the data and the tokenizer of the run, MaxSteps the length of its schedule; zero
	// in checkpoints of older versions.
	Inputs   data.Fingerprint   `json:"inputs,omitzero"`
	MaxSteps int                `json:"max_steps,omitzero"`
	Scaler   *optim.ScalerState `json:"loss_scaler,omitempty"`
	Best     *best              `json:"best,omitempty"`
	Epoch    epochLoss          `json:"epoch,omitzero"`
	// Recomputing reports that layers are recomputed because memory was short.
	Recomputing bool `json:"relieved,omitempty"`
}

// ErrStopped says that a run ended because it was asked to, with its state saved.
var ErrStopped = errors.New("stopped early; the state is saved")

// ErrNotFinite says that a run ended, on all ranks at the same step, because its loss, its gradient
// or its weights have no finite value.
var ErrNotFinite = checkpoint.ErrNotFinite

// Done says that all steps are made.
func (r *Run) Done() bool { return r.state.Step >= int64(r.Config.Training.MaxSteps) }

// Steps makes steps until the run ends, one a turn of the loop. The record is this rank's; the
// sink has had it. An error ends the iteration; ErrStopped is one.
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

// Train makes all steps, and ends with the parameters that the configuration asks for. A run all of
// whose steps were skipped has trained nothing, and is an error.
func (r *Run) Train(ctx context.Context) error {
	for _, err := range r.Steps(ctx) {
		if err != nil {
			return err
		}
	}
	if r.state.Updates == 0 && r.state.Step > 0 {
		return fault.Try(fmt.Errorf("train: all %d steps were skipped, the loss or the gradient is %w: nothing was trained, and no model is exported", r.state.Step, ErrNotFinite), "%s", r.nonFiniteAdvice())
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
		// All ranks come here at this step; none may leave while another still communicates.
		return rec, errors.Join(fault.Try(fmt.Errorf("train: step %d: loss %.4g, gradient norm %.4g: %w in %d steps in a row, which changed nothing", rec.Step, rec.Loss, rec.GradNorm, ErrNotFinite, r.state.Skipped), "%s", r.nonFiniteAdvice()), r.engine.Sync())
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
	rec.Resident, _ = monitor.ReadResident() // for the record only: zero where the system does not say
	return rec
}

// flops are those that the model needs for a batch.
func (r *Run) flops(b *data.Batch) float64 {
	n := r.needs.FLOPs(0, b.LabelCount)
	b.Documents(func(tokens int) { n += r.needs.FLOPs(int64(tokens), 0) })
	return n
}

// rows of a step over all ranks.
func (r *Run) rows() int64 {
	return int64(r.Config.Training.rows(r.accum, r.deps.World.Size()))
}

// Model is the network.
func (r *Run) Model() model.Model { return r.model }

// Close ends the run's goroutines and gives its memory back. The world stays open.
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
