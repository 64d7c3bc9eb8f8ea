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
	"trireme/model"
	"trireme/monitor"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
)

// Deps is what a program gives a run besides its configuration.
type Deps struct {
	Registry  model.Registry       // the families that config.json may name
	Model     *model.Config        // in place of the one that the configuration points to; nil reads that
	World     collective.World     // closed by the caller
	Agreement checkpoint.Agreement // of the same ranks
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
	Tokens  int64      `json:"tokens"`  // counted, since the run began
	Skipped int        `json:"skipped"` // in a row, up to now
	Data    data.State `json:"data"`
	// Inputs are the data and the tokenizer of the run, MaxSteps the length of its schedule; zero
	// in checkpoints of older versions.
	Inputs   data.Identity      `json:"inputs,omitzero"`
	MaxSteps int                `json:"max_steps,omitzero"`
	Scaler   *optim.ScalerState `json:"loss_scaler,omitempty"`
	Best     *best              `json:"best,omitempty"`
	Epoch    epochLoss          `json:"epoch,omitzero"`
	// Relieved says that layers are computed again since memory was short.
	Relieved bool `json:"relieved,omitempty"`
}

// ErrStopped says that a run ended because it was asked to, with its state saved.
var ErrStopped = errors.New("stopped early; the state is saved")

// ErrNotFinite says that a run ended, on all ranks at the same step, because its loss, its gradient
// or its weights have no finite value.
var ErrNotFinite = checkpoint.ErrNotFinite

// Open prepares a run: it makes the model divided among the ranks, opens the data and loads
// what is to be resumed. All ranks call it.
func Open(ctx context.Context, cfg Config, deps Deps) (*Run, error) {
	r := &Run{Config: cfg, deps: deps}
	if deps.Stop == nil {
		r.deps.Stop = func() bool { return false }
	}
	r.sink = monitor.Multi(nil)
	if err := r.open(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Run) open(ctx context.Context) (err error) {
	cfg, world := r.Config, r.deps.World
	if cfg.OutputDir == "" {
		return input(errors.New("train: output_dir names no directory"))
	}
	if r.accum, err = cfg.Training.Accumulation(world.Size()); err != nil {
		return input(err)
	}
	if err := r.readConfig(); err != nil {
		return err
	}
	if r.sets, r.loader, err = cfg.openData(ctx, r.config, r.info, r.accum, world.Rank(), world.Size(), r.deps.Tokenizing); err != nil {
		return err
	}
	r.Config.Data.SequenceLength = r.loader.SequenceLength()
	if cfg.Training.LoadBestModelAtEnd && r.sets.Eval == nil {
		return input(errors.New("train: load_best_model_at_end needs an evaluation set. try: --set data.eval_fraction=0.05, or data.eval_path"))
	}
	if err := r.together(ctx); err != nil {
		return err
	}
	if err := r.openModel(r.loader.SequenceLength(), r.loader.Info(), true); err != nil {
		return err
	}
	per := r.loader.StepsPerEpoch()
	r.Config.Training.MaxSteps = cfg.Training.steps(per)
	r.schedule = cfg.Training.schedule(r.Config.Training.MaxSteps)
	r.evalEvery = every(cfg.Training.EvalEveryNSteps, cfg.Training.EvalEveryNEpochs, per)
	r.saveEvery = [2]int64{int64(cfg.Checkpoint.SaveEveryNSteps), every(0, cfg.Checkpoint.SaveEveryNEpochs, per)}
	if r.store, err = checkpoint.NewStore(cfg.OutputDir, r.deps.Run, cfg.Checkpoint, r.deps.Agreement, r.backend); err != nil {
		return err
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	if scaler := r.stepper.scaler; scaler != nil {
		from, err := scaler.Resume(r.state.Scaler)
		if err != nil {
			return input(err)
		}
		r.stepper.ScaleLoss(scaler, from)
	}
	r.state.Scaler = r.stepper.LossScale()
	if err := r.together(ctx); err != nil {
		return err
	}
	r.state.Inputs, r.state.MaxSteps = r.sets.Identity(ctx), r.Config.Training.MaxSteps
	return r.engine.Refresh(ctx)
}

// together returns when all ranks have called it. It stands between what each does alone, which may
// take long (data, files), and collectives, which have a time-out.
func (r *Run) together(ctx context.Context) error {
	if _, err := r.deps.Agreement.Gather(ctx, nil); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	return nil
}

// readConfig finds what the model is.
func (r *Run) readConfig() (err error) {
	if r.config = r.deps.Model; r.config == nil {
		if r.config, err = r.Config.ReadModel(r.deps.Registry); err != nil {
			return input(err)
		}
	}
	r.info, err = Describe(r.config)
	return err
}

// openModel opens the device, and makes the model there for rows of so many positions.
func (r *Run) openModel(positions int, rows data.Info, train bool) (err error) {
	cfg, world := r.Config, r.deps.World
	if r.pressure, err = cfg.pressure(r.deps.LocalRanks); err != nil { // before memory is taken
		return input(err)
	}
	var plan *tensor.Usage
	if r.deps.Plan != nil {
		use, err := r.deps.Plan(r.config, positions, rows)
		if err != nil {
			return input(err)
		}
		plan = &use
	}
	if r.backend, err = cfg.Device.Open(world.Arena(), r.deps.LocalRanks, plan); err != nil {
		return err
	}
	ranks := Ranks{Size: world.Size(), Local: r.deps.LocalRanks, Groups: func(replicate, shard, reshard int) (parallel.Groups, error) {
		return parallel.NewGroups(world, replicate, shard, reshard)
	}}
	a, err := cfg.Assemble(r.backend, r.config, positions, ranks, train)
	if err != nil {
		return err
	}
	r.model, r.engine, r.stepper = a.Model, a.Engine, a.Stepper
	return nil
}

// begin gives the state its first values: random, a model's files, or a checkpoint.
func (r *Run) begin(ctx context.Context) error {
	notes, err := r.resume(ctx)
	if err != nil {
		return input(err)
	}
	if r.deps.Sink != nil {
		sink, err := r.deps.Sink(r.state.Step)
		if err != nil {
			return err
		}
		r.sink = sink
	}
	notes = append(notes, append(r.Config.Offload.Notes(), r.engine.Offloaded()...)...)
	for _, n := range notes {
		if err := r.sink.Note(n); err != nil {
			return err
		}
	}
	if r.Done() {
		return r.sink.Note(fmt.Sprintf("all %d steps are done: nothing is left to train", r.Config.Training.MaxSteps))
	}
	switch {
	case r.state.Step > 0:
		return nil
	case r.Config.Model.drawn():
		return r.engine.Init(r.Config.Training.Seed)
	}
	return r.loadWeights(ctx, true)
}

// loadWeights reads this rank's parts of the model's files. To be trained, parameters that they
// lack may be drawn. All ranks call it.
func (r *Run) loadWeights(ctx context.Context, train bool) error {
	files, err := r.Config.Model.openWeights()
	if err != nil {
		return input(err)
	}
	defer files.Close()
	w, err := r.Config.Model.match(r.model, r.config, files)
	if err == nil && !train {
		err = w.whole()
	}
	if err != nil {
		return input(err)
	}
	if err := w.load(r.backend, r.engine, r.Config.Training.Seed); err != nil {
		return err
	}
	notes := w.notes()
	if r.notFinite, err = w.notFinite(ctx, r.deps.Agreement); err != nil {
		return err
	}
	if r.notFinite != "" {
		notes = append(notes, fmt.Sprintf("%s: %s", files.Name(), r.notFinite))
	}
	for _, n := range notes {
		if err := r.sink.Note(n); err != nil {
			return err
		}
	}
	return nil
}

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
		return fmt.Errorf("train: all %d steps were skipped, the loss or the gradient is %w: nothing was trained, and no model is exported. try: %s", r.state.Step, ErrNotFinite, r.finiteAdvice())
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
		r.engine.Vote(parallel.Stop)
	}
	r.engine.Read(batch.Tokens)
	r.askRelief()
	lr := r.schedule.At(r.state.Updates)
	if err := r.stepper.Step(ctx, batch.Micro, lr, r.state.Updates); err != nil {
		return monitor.Record{}, fmt.Errorf("train: rank %d, step %d: %w", r.deps.World.Rank(), r.state.Step+1, err)
	}
	o := r.stepper.Outcome()
	o.LossScale, r.state.Scaler = r.state.Scaler, r.stepper.LossScale()
	r.stopped = r.engine.Votes(parallel.Stop) > 0
	r.state.Step++
	r.state.Tokens += o.Tokens
	r.state.Data = r.loader.State()
	switch {
	case o.Applied:
		r.state.Updates++
		r.state.Skipped = 0
	case !r.stepper.excuses(o):
		r.state.Skipped++
	}
	rec := r.record(o, lr, time.Since(began), waited)
	rec.EpochLoss = r.state.Epoch.add(o, rec.Step, r.loader.StepsPerEpoch())
	if err := r.sink.Record(rec); err != nil {
		return rec, err
	}
	if err := r.relieve(); err != nil {
		return rec, err
	}
	if r.state.Skipped > r.Config.Training.MaxSkippedSteps {
		// All ranks come here at this step; none may leave while another still communicates.
		return rec, errors.Join(fmt.Errorf("train: step %d: loss %.4g, gradient norm %.4g: %w in %d steps in a row, which changed nothing. try: %s",
			rec.Step, rec.Loss, rec.GradNorm, ErrNotFinite, r.state.Skipped, r.finiteAdvice()), r.engine.Settle())
	}
	return rec, nil
}

func (r *Run) record(o Outcome, lr float64, took, data time.Duration) monitor.Record {
	s := took.Seconds()
	rec := monitor.Record{
		Step: r.state.Step, MaxSteps: int64(r.Config.Training.MaxSteps), Time: time.Now(), Run: r.deps.Run,
		Epoch: float64(r.state.Step) / float64(r.loader.StepsPerEpoch()),
		Loss:  o.Loss, Means: o.means(r.info.Sums), GradNorm: o.GradNorm, LR: lr, Skipped: !o.Applied,
		Samples: r.rows(), Tokens: r.engine.TokensRead(), LabelTokens: o.Tokens, StepSeconds: s, WorldSize: r.deps.World.Size(),
		CommFraction: r.engine.Waited().Seconds() / s, DataFraction: data.Seconds() / s,
	}
	if o.LossScale != nil {
		rec.LossScale = o.LossScale.Scale
	}
	if rec.PeakFLOPS = r.deps.PeakFLOPS * float64(rec.WorldSize); rec.PeakFLOPS > 0 {
		rec.MFU = r.info.FLOPsPerToken(r.loader.SequenceLength()) * float64(rec.Tokens) / s / rec.PeakFLOPS
	}
	use := r.backend.Meter().Read()
	r.peak, r.pressure.used = most(r.peak, use), use.PeakTotal
	rec.Memory, rec.MemoryPeak = map[string]int64{}, map[string]int64{"total": use.PeakTotal}
	for c := range tensor.NumCategories {
		rec.Memory[c.String()], rec.MemoryPeak[c.String()] = use.Live[c], use.Peak[c]
	}
	rec.Resident, _ = monitor.ReadResident() // for the record only: zero where the system does not say
	return rec
}

// rows of a step over all ranks.
func (r *Run) rows() int64 {
	return int64(r.Config.Training.MicroBatchSize * r.accum * r.deps.World.Size())
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
