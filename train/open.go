package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"trireme/checkpoint"
	"trireme/data"
	"trireme/fault"
	"trireme/flight"
	"trireme/monitor"
	"trireme/tensor"
)

// Open prepares a run: it builds the sharded model, opens the data, and loads weights or a checkpoint.
// All ranks call it.
func Open(ctx context.Context, cfg Config, deps Deps) (*Run, error) {
	r := &Run{Config: cfg, deps: deps}
	if deps.Stop == nil {
		r.deps.Stop = func() bool { return false }
	}
	r.sink = monitor.Multi(nil)
	r.slow.name = deps.RankName
	if err := r.open(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Run) open(ctx context.Context) (err error) {
	if r.deps.HostMemory == nil || r.deps.Trial {
		r.Config.Checkpoint = r.Config.Checkpoint.WithoutMemory()
	}
	cfg, world := r.Config, r.deps.World
	if cfg.OutputDir == "" {
		return input(errors.New("train: output_dir is empty"))
	}
	if r.accum, err = cfg.Training.Accumulation(world.Size()); err != nil {
		return input(err)
	}
	if err := r.readConfig(); err != nil {
		return err
	}
	if r.sets, r.loader, err = cfg.openData(ctx, r.config, r.info, r.accum, world.Rank(), world.Size(), r.deps.Recorder, r.deps.Trace, r.deps.Tokenizing); err != nil {
		return err
	}
	r.Config.Data.SequenceLength = r.loader.SequenceLength()
	r.state.Inputs = r.sets.Fingerprint(ctx)
	if cfg.keepsBest() && r.sets.Eval == nil {
		key := "load_best_model_at_end"
		if !cfg.Training.LoadBestModelAtEnd {
			key = "checkpoint.keep_best"
		}
		return input(fault.Try(fmt.Errorf("train: %s needs an evaluation set", key), "%s, or data.eval_path", fault.Set("data.eval_fraction", "0.05")))
	}
	if r.prompts, err = cfg.openPrompts(r.info, r.sets.Eval != nil); err != nil {
		return input(err)
	}
	if err := r.barrier(ctx); err != nil {
		return err
	}
	if err := r.openModel(r.loader.SequenceLength(), r.loader.Info(), true); err != nil {
		return err
	}
	per := r.loader.StepsPerEpoch()
	r.Config.Training.MaxSteps = cfg.Training.steps(per)
	r.schedule = cfg.Training.WithTotalSteps(r.Config.Training.MaxSteps)
	r.evalEvery = every(cfg.Training.EvalEveryNSteps, cfg.Training.EvalEveryNEpochs, per)
	now := time.Now()
	r.saving = saving{
		every: [2]int64{int64(cfg.Checkpoint.Disk().SaveEveryNSteps), every(0, cfg.Checkpoint.SaveEveryNEpochs, per)},
		after: minutes(cfg.Checkpoint.SaveEveryNMinutes), began: now,
	}
	r.limit = timeLimit{end: r.deps.Deadline, margin: minutes(cfg.Training.StopMarginSeconds / 60)}
	if cfg.Training.MaxMinutes > 0 {
		r.limit.end = earlier(r.limit.end, now.Add(minutes(cfg.Training.MaxMinutes)))
	}
	group := waitingGroup{r.deps.ProcessGroup, &r.between.waited}
	if r.store, err = checkpoint.NewStore(cfg.OutputDir, r.deps.Run, cfg.Checkpoint, group, r.backend); err != nil {
		return err
	}
	if r.saving.memory = int64(cfg.Checkpoint.MemoryEveryNSteps()); r.saving.memory > 0 {
		if r.memory, err = checkpoint.NewMemoryStore(r.deps.HostMemory, r.deps.Run, world.Rank()-r.deps.LocalRank, group, r.backend); err != nil {
			return err
		}
	}
	if t, ok := cfg.Checkpoint.Remote(); ok && !r.deps.Trial {
		r.copies.every = int64(t.SaveEveryNSteps)
		if r.copies.to, err = checkpoint.NewStore("", r.deps.Run, checkpoint.Config{Dir: t.Dir, Keep: t.Keep}, group, nil); err != nil {
			return err
		}
	}
	if err := r.initState(ctx); err != nil {
		return err
	}
	if err := r.findCopies(ctx); err != nil {
		return err
	}
	if scaler := r.stepper.scaler; scaler != nil {
		from, err := scaler.Resume(r.state.Scaler)
		if err != nil {
			return input(err)
		}
		r.stepper.ScaleLoss(scaler, from)
	}
	r.stepper.Start(r.state.Updates)
	r.state.Scaler = r.stepper.LossScale()
	if err := r.barrier(ctx); err != nil {
		return err
	}
	r.state.MaxSteps, r.state.Machine = r.Config.Training.MaxSteps, r.Config.Device.Kind(r.backend)
	return r.engine.Refresh(ctx)
}

// barrier waits for all ranks. It separates local work that may take long (data, files) from
// collectives, which have a timeout.
func (r *Run) barrier(ctx context.Context) error {
	if _, err := r.deps.ProcessGroup.AllGatherBytes(ctx, nil); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	return nil
}

func (r *Run) readConfig() (err error) {
	if r.config = r.deps.Model; r.config == nil {
		if r.config, err = r.Config.ReadModel(r.deps.Registry); err != nil {
			return input(err)
		}
	}
	r.info, err = ModelInfo(r.config)
	return err
}

// openModel opens the device and builds the model for rows of up to positions tokens.
func (r *Run) openModel(positions int, rows data.Info, train bool) (err error) {
	cfg := r.Config
	if r.pressure, err = cfg.pressure(r.deps.LocalRanks); err != nil { // before memory is allocated
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
	b := r.deps.device
	if b == nil {
		if b, err = cfg.Device.Open(r.deps.Process, r.deps.World.Arena(), r.deps.LocalRanks, plan); err != nil {
			return err
		}
	}
	defer r.deps.Recorder.Leave(r.deps.Recorder.Enter(flight.Preparing, "the model"))
	a, err := cfg.buildOnDevice(b, r.deps.World, r.deps.LocalRanks, r.config, positions, train)
	if err != nil {
		return err
	}
	r.backend, r.model, r.engine, r.stepper, r.snapshot = b, a.Model, a.Engine, a.Stepper, a.snapshot
	r.stepper.beforeEnd, r.stepper.beforeUpdate = r.voteToStop, r.hold
	r.engine.SetRecorder(r.deps.Recorder)
	r.stepper.SetTrace(r.deps.Trace)
	r.deps.Trace.Reserve(min(32*len(r.model.Units())*max(1, r.accum)+1024, 1<<18)) // two steps and more
	r.needs = r.info.Frozen(r.model.Units())
	return nil
}

// initState initializes the state: at random, from a model's files, or from a checkpoint.
func (r *Run) initState(ctx context.Context) error {
	defer r.deps.Recorder.Leave(r.deps.Recorder.Enter(flight.LoadingWeights, ""))
	notes, err := r.resume(ctx)
	if err != nil {
		return input(err)
	}
	if err := checkpoint.Claim(ctx, r.tiers(), r.deps.Restart); err != nil {
		return err
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
	if steps := int64(r.Config.Training.MaxSteps); r.state.Step > steps {
		return r.sink.Note(fmt.Sprintf("nothing to train: the checkpoint is at step %d, and max_steps is %d", r.state.Step, steps))
	}
	if r.Done() {
		return r.sink.Note(fmt.Sprintf("all %d steps are done, nothing to train", r.Config.Training.MaxSteps))
	}
	switch {
	case r.state.Step > 0:
		return nil
	case r.Config.Model.randomInit():
		return r.engine.Init(r.Config.Training.Seed)
	}
	return r.loadWeights(ctx, true)
}

// loadWeights loads this rank's shards of the model's files. If train is true, parameters that the
// files lack may be initialized. All ranks call it.
func (r *Run) loadWeights(ctx context.Context, train bool) error {
	files, err := r.Config.Model.openWeights()
	if err != nil {
		return input(err)
	}
	defer files.Close()
	w, err := r.Config.Model.match(r.model, r.config, files)
	if err == nil && !train {
		err = w.complete()
	}
	if err != nil {
		return input(err)
	}
	if err := w.load(r.backend, r.engine, r.Config.Training.Seed); err != nil {
		return err
	}
	notes := w.notes()
	if r.notFinite, err = w.notFinite(ctx, r.deps.ProcessGroup); err != nil {
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
