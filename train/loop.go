package train

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"time"

	"trireme/data"
	"trireme/fault"
	"trireme/flight"
	"trireme/monitor"
	"trireme/parallel"
	"trireme/tensor"
	"trireme/trace"
)

// Steps runs one step per iteration until the run ends. Records are of this rank, and were passed to
// the sink. An error, including ErrStopped, ends the iteration.
func (r *Run) Steps(ctx context.Context) iter.Seq2[monitor.Record, error] { return r.steps(ctx, 1) }

// Train runs all steps and loads the best weights if the configuration asks for them. It is an error
// if every step was skipped.
func (r *Run) Train(ctx context.Context) error {
	for _, err := range r.steps(ctx, r.inFlight()) {
		if err != nil {
			return err
		}
	}
	if r.state.Updates == 0 && r.state.Step > 0 {
		return fault.Try(fmt.Errorf("train: all %d steps were skipped because the loss or gradient is %w; no model is exported", r.state.Step, ErrNotFinite), "%s", r.nonFiniteAdvice())
	}
	return r.loadBest(ctx)
}

// inFlight is the number of steps that Train enqueues before it reads the first result: two on a device that
// computes while the host prepares the next step, unless something may change between steps.
func (r *Run) inFlight() int {
	if tensor.Async(r.backend) && len(r.deps.Hooks) == 0 && r.pressure.every == 0 {
		return 2
	}
	return 1
}

// enqueued is a step whose result has not been read.
type enqueued struct {
	began  int64         // trace.Now
	waited time.Duration // for data
	data   data.State    // after it
}

// steps is Steps with up to inFlight steps enqueued. Every rank enqueues the same steps: votes to stop take
// effect after the last one in flight.
func (r *Run) steps(ctx context.Context, inFlight int) iter.Seq2[monitor.Record, error] {
	return func(yield func(monitor.Record, error) bool) {
		hooks := r.hooks()
		var flight []enqueued // oldest first
		var failed error      // of the step after them
		read := int64(0)      // when the last result was read (trace.Now)
		if err := r.continueCopy(ctx); err != nil {
			yield(monitor.Record{}, err)
			return
		}
		r.spans.start(r.deps.Trace)
		if r.deps.Tracer != nil && !r.Done() {
			r.deps.Tracer.Start(r.state.Step + 1)
		}
		for !r.Done() {
			for failed == nil && (len(flight) == 0 || len(flight) < inFlight && r.asked == (votes{}) && !r.endsFlight(r.state.Step+int64(len(flight)))) {
				var s enqueued
				if s, failed = r.enqueue(ctx, r.state.Step+int64(len(flight))+1); failed == nil {
					flight = append(flight, s)
				}
			}
			if len(flight) == 0 {
				yield(monitor.Record{}, failed)
				return
			}
			s := flight[0]
			flight = flight[1:]
			s.began = max(s.began, read)
			rec, err := r.finish(s)
			read = trace.Now()
			r.engine.Pause()
			r.settled = len(flight) == 0
			if err == nil {
				err = r.noteCompiled()
			}
			for i := 0; i < len(hooks) && err == nil; i++ {
				err = hooks[i].AfterStep(ctx, r, rec)
			}
			if traced := r.traceStep(len(flight)); err == nil {
				err = traced
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// endsFlight reports whether a step is read before the next one is enqueued: the last one, or one that an
// evaluation, a checkpoint, histograms or the end of a save in memory follow.
func (r *Run) endsFlight(step int64) bool {
	rec := monitor.Record{Step: step, MaxSteps: int64(r.Config.Training.MaxSteps)}
	return r.sets.Eval != nil && due(r.evalEvery, rec) || r.saving.due(rec) || r.saving.inMemory(rec) || r.writing[savedInMemory] != nil || r.histogramsDue(step)
}

// voteToStop votes at the end of a step, so that a request between its micro-batches counts.
func (r *Run) voteToStop() {
	if r.deps.Stop() {
		r.engine.Vote(parallel.VoteStop)
	}
}

// enqueue starts step number step.
func (r *Run) enqueue(ctx context.Context, step int64) (s enqueued, err error) {
	r.engine.Resume()
	r.deps.Trace.SetStep(step)
	s.began = trace.Now()
	r.backend.Meter().ResetPeak()
	r.deps.Recorder.Step(step)
	waits := r.deps.Trace.Begin(trace.Span{Kind: trace.Data})
	batch, err := r.loader.Next(ctx)
	if err != nil {
		return s, input(err)
	}
	r.deps.Trace.End(waits)
	s.waited, s.data = trace.Elapsed(s.began), r.loader.State()
	if w := r.writing[savedOnDisk]; w != nil {
		r.engine.Saved(w.Votes())
	}
	if err := r.voteByTime(); err != nil {
		return s, err
	}
	if r.deps.Tracer != nil {
		r.engine.TraceSteps(r.deps.Tracer.Request())
	}
	r.engine.CountTokens(batch.Tokens, r.flops(batch))
	r.engine.CountData(s.waited)
	r.voteRecompute()
	defer r.deps.Recorder.Leave(r.deps.Recorder.Enter(flight.Computing, ""))
	return s, r.inStep(step, r.stepper.Step(ctx, batch.Micro, r.schedule.At))
}

func (r *Run) inStep(step int64, err error) error {
	if err != nil {
		return fmt.Errorf("train: rank %d, step %d: %w", r.deps.World.Rank(), step, err)
	}
	return nil
}

// result waits for the oldest step or evaluation. An error is the device's.
func (r *Run) result() (o StepResult, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case runtime.Error:
			panic(p)
		case error:
			err = p
		default:
			panic(p)
		}
	}()
	defer r.deps.Recorder.Leave(r.deps.Recorder.Enter(flight.Computing, ""))
	return r.stepper.Result(), nil
}

// finish waits for the oldest step in flight.
func (r *Run) finish(s enqueued) (rec monitor.Record, err error) {
	o, err := r.result()
	if err != nil {
		return rec, r.inStep(r.state.Step+1, err)
	}
	ended := trace.Now()
	r.state.Scaler = r.stepper.LossScale()
	r.asked.stop = r.asked.stop || o.Votes(parallel.VoteStop) > 0
	r.asked.save = r.asked.save || o.Votes(parallel.VoteSave) > 0
	r.asked.saved = r.asked.saved || r.writing[savedOnDisk] != nil && o.Votes(parallel.VoteSaved) >= int64(r.deps.World.Size())
	r.traced += o.Votes(parallel.VoteTrace)
	r.state.Step++
	r.state.Data = s.data
	switch {
	case o.Applied:
		r.state.Updates++
		r.state.Skipped = 0
	case !r.stepper.overflowed(o):
		r.state.Skipped++
	}
	r.deps.Trace.Add(trace.Span{Kind: trace.Step, Start: s.began, End: ended, Step: r.state.Step})
	rec = r.record(o, s.began, ended, s.waited)
	var slow []string
	rec.Skew, rec.SlowRank, slow = r.slow.step(o.Times())
	rec.EpochLoss = r.state.Epoch.add(o, rec.Step, r.loader.StepsPerEpoch())
	if err := r.sink.Record(rec); err != nil {
		return rec, err
	}
	for _, note := range slow {
		if err := r.sink.Note(note); err != nil {
			return rec, err
		}
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

// noteCompiled notes the programs that the device has compiled since the last call.
func (r *Run) noteCompiled() error {
	all := tensor.Compiled(r.backend)
	if len(all) <= r.compiled {
		return nil
	}
	s, peak := 0.0, int64(0)
	for _, c := range all[r.compiled:] {
		s += c.Seconds
		peak = max(peak, c.PeakBytes)
	}
	n := len(all) - r.compiled
	r.compiled = len(all)
	return r.sink.Note(fmt.Sprintf("compiled %s in %.1f s, peak %s", count(n, "program"), s, monitor.Bytes(peak)))
}
