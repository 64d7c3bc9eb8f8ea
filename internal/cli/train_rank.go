package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"trireme/collective"
	"trireme/data"
	"trireme/internal/alert"
	"trireme/internal/bench"
	"trireme/internal/durable"
	"trireme/internal/rundir"
	"trireme/internal/trackers"
	"trireme/launch"
	"trireme/model"
	"trireme/monitor"
	"trireme/rendezvous"
	"trireme/tensor"
	"trireme/train"
)

// runWorker trains as a process of this program's launcher, or as one without rank 0.
func (j *job) runWorker(ctx context.Context, env rendezvous.Env, stderr io.Writer) error {
	s := &screen{Writer: stderr}
	if env.Rank == 0 {
		sink, err := openRecordPipe(stderr)
		if err != nil {
			return err
		}
		s.sink = sink
	}
	return j.runRanks(ctx, env, s)
}

// runRanks trains as the ranks of this process. Rank 0 sends records to s.
func (j *job) runRanks(ctx context.Context, env rendezvous.Env, s *screen) error {
	stop := stopOf(ctx)
	stop.SetDumpDir(j.logs(), launch.RankName(env.Rank))
	stop.SetOutput(s)
	var err error
	if j.process.memory, err = launch.Memory(os.LookupEnv); err != nil {
		return err
	}
	j.process.conns[0].setNotes(s)
	if j.cfg.OutputDir != "" {
		j.process.recordTo(j.logs())
	}
	if !isOwnWorker() {
		stop.DumpCrashes()
	}
	return j.withWorlds(func(j *job, w *world) error { return j.trainRank(w, s) })
}

// logs returns the directory of the ranks' logs and of crash stacks.
func (j *job) logs() string { return filepath.Join(j.cfg.OutputDir, "logs") }

// withWorlds runs f for each rank of this process (process.run), once all ranks have this configuration. The
// first rank has j, each other rank a copy.
func (j *job) withWorlds(f func(j *job, w *world) error) error {
	if err := j.cfg.Device.Instructions.Use(); err != nil { // before the peak is measured
		return &Exit{CodeUsage, err}
	}
	jobs := []*job{j}
	for range j.process.conns[1:] {
		own := *j
		jobs = append(jobs, &own)
	}
	return j.process.run(string(j.cfg.Parallel.Backend), func(w *world) error {
		own := jobs[w.index]
		if err := own.checkSameConfig(w.conn.ctx, w.processGroup(), w.env.LocalWorldSize); err != nil {
			return err
		}
		return f(own, w)
	})
}

func (j *job) trainDeps(w *world) train.Deps {
	dt, _ := tensor.ParseDType(j.cfg.Precision.ParamDType) // validated
	return train.Deps{
		Registry: families, Model: j.model, World: w, ProcessGroup: w.processGroup(), LocalRanks: w.env.LocalWorldSize,
		Process: w.device(), Recorder: w.conn.recorder, Trace: w.conn.trace, RankName: w.rankName, Restart: j.restart.count,
		Run: j.run.ID, Resolved: j.resolved, HostMemory: w.process.memory, LocalRank: w.env.LocalRank, PeakFLOPS: j.peak(w.env.LocalWorldSize, dt), Trial: isTrial(),
		Deadline: rendezvous.JobEnd(os.LookupEnv),
	}
}

// peak returns the peak FLOP/s of a rank: of its GPU by the data sheet, or measured on the processor. 0 is
// unknown.
func (j *job) peak(local int, dt tensor.DType) float64 {
	if j.cfg.Device.Name.Accelerator() {
		return j.cfg.Device.PeakFLOPS(dt)
	}
	return 1e9 * bench.Peak(j.cfg.Device.ThreadsPerRank(local), dt)
}

// trainRank trains as one rank. Until the first step a stop signal ends the run at once, later all
// ranks stop after the same step.
func (j *job) trainRank(w *world, s *screen) (err error) {
	ctx := w.conn.ctx
	if err := j.shareRun(ctx, w.processGroup()); err != nil {
		return err
	}
	if w.index == 0 { // under another launcher, rank 0 has chosen the directory
		w.process.recordTo(j.logs())
	}
	env, deps := w.env, j.trainDeps(w)
	until, err := trialStop()
	if err != nil {
		return err
	}
	if until > 0 {
		deps.Hooks = append(deps.Hooks, saveAfter(until))
	}
	begun := int64(0) // steps that have begun
	deps.Stop = func() bool {
		begun++
		return begun == until || stopOf(ctx).Requested() != nil
	}
	deps.Plan = func(config *model.Config, positions int, rows data.Info) (tensor.Usage, error) {
		p, err := j.planJob(config, positions, rows, env.WorldSize, env.LocalWorldSize).Run(ctx, env.Rank)
		return p.Memory, err
	}
	ended := trackers.End{}
	deps.Sink = func(resumed int64) (monitor.Sink, error) {
		begun = resumed
		sink, err := j.sinks(env, s, resumed, func() trackers.End { return ended })
		if err == nil && env.Rank == 0 && deps.PeakFLOPS > 0 {
			err = sink.Note(j.peakLine(deps.PeakFLOPS, env.WorldSize))
		}
		return sink, err
	}
	if env.Rank == 0 {
		watcher := j.cfg.Device.Watch(env.LocalWorldSize)
		defer func() {
			if closed := watcher.Close(); err == nil {
				err = closed
			}
		}()
		deps.Device = watcher.Latest
		machine := monitor.WatchHost(j.cfg.OutputDir)
		defer machine.Close()
		deps.Host = machine.Latest
	}
	tracer := j.openTracer(w)
	defer w.closeTracer(tracer)
	deps.Tracer = tracer
	run, err := train.Open(ctx, j.cfg, deps)
	if err != nil {
		return err
	}
	defer func() {
		ended.Code = codeOf(err)
		if errors.Is(err, train.ErrStopped) {
			ended.Code = CodeStopped
		}
		if closed := run.Close(); err == nil {
			err = closed
		}
	}()
	tracer.SetGroups(run.Groups())
	if err := ctx.Err(); err != nil {
		return err
	}
	if env.Rank == 0 && !run.Done() {
		if err := j.keepConfig(); err != nil {
			return err
		}
	}
	j.stepping = true
	stopOf(ctx).SetGrace(j.cfg.Parallel.StopGrace())
	training := context.WithoutCancel(ctx)
	if err := run.Train(training); err != nil {
		return err
	}
	if !isTrial() {
		if err := run.Export(training, filepath.Join(j.cfg.OutputDir, rundir.FinalModel), tokenizersOf(j.cfg)...); err != nil {
			return err
		}
	}
	memory, err := run.Memory(training)
	if err != nil || env.Rank != 0 {
		return err
	}
	b, err := json.Marshal(memory)
	if err != nil {
		return err
	}
	return outputError(durable.WriteFile(filepath.Join(j.cfg.OutputDir, rundir.Memory), append(b, '\n')))
}

// peakLine states the FLOPS that MFU is relative to.
func (j *job) peakLine(perRank float64, ranks int) string {
	text := "mfu: relative to " + monitor.FLOPS(perRank*float64(ranks))
	if ranks > 1 {
		text += fmt.Sprintf(" = %d ranks x %s", ranks, monitor.FLOPS(perRank))
	}
	if j.cfg.Device.Name.Accelerator() {
		return text + ", the peak of the GPU's data sheet"
	}
	return text + ", the measured peak of vector arithmetic"
}

// sinks returns rank 0's record sinks: the screen, files in the output directory, and trackers.
func (j *job) sinks(env rendezvous.Env, s *screen, resumed int64, end func() trackers.End) (monitor.Sink, error) {
	if env.Rank != 0 {
		return monitor.Multi(nil), nil
	}
	print := func(text string) { fmt.Fprintln(s, text) }
	lines, err := monitor.OpenJSONL(filepath.Join(j.cfg.OutputDir, rundir.Metrics), resumed)
	if err != nil {
		return nil, err
	}
	run := trackers.Run{
		ID: j.run.ID, Name: filepath.Base(j.cfg.OutputDir), Dir: j.cfg.OutputDir, Resumed: resumed, Started: time.Now(),
		Lookup: os.LookupEnv, Print: print, End: end,
	}
	if run.Params, err = trackers.ParseParams(j.resolved); err != nil {
		return nil, errors.Join(err, lines.Close())
	}
	indexing := newIndexing(j.cfg.OutputDir)
	lines.Rotate(j.cfg.Logging.RotateBytes, indexing.start)
	events, err := monitor.OpenEvents(filepath.Join(j.cfg.OutputDir, rundir.Events), j.run.ID)
	if err != nil {
		return nil, errors.Join(err, lines.Close())
	}
	opened := monitor.Event{Kind: monitor.EventStart, Text: fmt.Sprintf("%s, %s, %s", strings.Join(os.Args, " "), number(int64(env.WorldSize), "rank"), j.cfg.Parallel.Strategy)}
	if resumed > 0 {
		opened.Kind, opened.Step = monitor.EventResume, resumed
	}
	if err := events.Event(opened); err != nil {
		return nil, errors.Join(err, lines.Close(), events.Close())
	}
	all := []monitor.Sink{lines, events, indexing, keepOpen{s.sink}}
	if len(j.cfg.Logging.Alerts) > 0 {
		all = append(all, alert.Open(j.cfg.Logging.Alerts, alert.Run{
			ID: j.run.ID, Dir: j.cfg.OutputDir, Environ: os.Environ(), Print: print, Event: func(e monitor.Event) error {
				return monitor.AppendEvent(filepath.Join(j.cfg.OutputDir, rundir.Events), e)
			},
		}))
	}
	if j.cfg.Logging.TensorBoard {
		tb, err := j.tensorBoard(run)
		if err != nil {
			return nil, errors.Join(err, lines.Close())
		}
		all = append(all, monitor.Every(j.cfg.Logging.LogEveryNSteps, tb))
	}
	all = append(all, trackers.Open(j.cfg.Logging, run), monitor.NewReports(j.cfg.Logging, print))
	return monitor.Multi(func(err error) { print("records: " + err.Error()) }, all...), nil
}

// tensorBoard opens an event file, which starts with the configuration.
func (j *job) tensorBoard(run trackers.Run) (*monitor.TensorBoard, error) {
	tb, err := monitor.OpenTensorBoard(filepath.Join(run.Dir, rundir.TensorBoard), run.Resumed)
	if err != nil {
		return nil, err
	}
	if err = tb.Text(run.Started, run.Resumed, "config", j.resolved); err == nil {
		err = tb.Params(run.Started, run.Name, run.Params)
	}
	if err != nil {
		return nil, errors.Join(err, tb.Close())
	}
	return tb, nil
}

// keepOpen is a sink that its owner closes.
type keepOpen struct{ monitor.Sink }

func (keepOpen) Close() error { return nil }

// tokenizersOf returns the directories to copy a tokenizer from. The first that has one is used.
func tokenizersOf(cfg train.Config) []string {
	var dirs []string
	for _, d := range []string{cfg.Data.Tokenizer, cfg.Model.Path} {
		if d != "" {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// causeDelay delays the exit of a rank that another rank stopped, so that the launcher sees the root
// cause first.
const causeDelay = 300 * time.Millisecond

// blameError is an error caused by another rank that hangs, was stopped or was lost.
type blameError interface {
	error
	// Culprit returns the rank at fault. ok is false if the rank is unknown or reports its own error.
	Culprit() (rank int, ok bool)
}

// exitOf gives an error of a rank its exit code, and reports the rank at fault to the launcher.
func exitOf(stop *launch.Shutdown, env rendezvous.Env, err error) error {
	var lost *collective.Failure
	var other blameError
	if errors.As(err, &other) {
		if rank, ok := other.Culprit(); ok && rank != env.Rank {
			return &Exit{CodePeerLost, errors.Join(err, stop.ReportRootCause(env.Rank, rank, other.Error()))}
		}
	}
	switch asked := stop.Requested(); {
	case errors.Is(err, train.ErrStopped):
		return &Exit{CodeStopped, err}
	case asked != nil && errors.Is(err, collective.ErrAborted) && !errors.Is(err, context.Canceled):
		return &Exit{asked.Code(), err} // another rank stopped before its first step
	case errors.Is(err, train.ErrNotFinite) && env.LocalRank > 0:
		return &Exit{CodePeerLost, err} // common to all ranks: local rank 0 reports it
	case errors.As(err, &lost) && lost.Kind == collective.ErrMismatch: // no rank is known to be the right one
		return &Exit{CodePeerLost, errors.Join(err, stop.ReportRootCause(env.Rank, env.Rank, lost.Text))}
	case errors.As(err, &lost) && (lost.Rank != env.Rank || lost.Kind == collective.ErrPeerLost):
		time.Sleep(causeDelay)
		return &Exit{CodePeerLost, err}
	case errors.As(err, &lost):
		return &Exit{CodePeerLost, err}
	}
	return err
}
