package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"trireme/internal/rundir"
	"trireme/internal/runlog"
	"trireme/internal/verdict"
	"trireme/internal/view"
	"trireme/monitor"
)

type watchFlags struct{ once bool }

func newWatch() *cobra.Command {
	f := &watchFlags{}
	c := &cobra.Command{
		Use:   "watch DIR...",
		Short: "show runs on the terminal, while they train or afterwards",
		Long: `Show the run in a directory from its files: metrics as charts, where the time of a step goes,
memory, ranks, the last checkpoint and evaluation, notes, and what limits the speed. A running run
is followed until it ends. Watching never changes a run: q and Ctrl-C quit, and it continues.

Keys: q quit, ? all keys, tab the next pane, arrows another chart or scroll, n the next run.

If the output is not a terminal, or TERM is dumb, each step is a line, as in training.`,
		Example: `  trireme watch runs/sft-1
  trireme watch runs/sft-1 runs/sft-2
  trireme watch --once runs/sft-1 | less -R
  ssh -t node0 trireme watch /data/runs/sft-1`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("watch needs the directory of a run", "trireme watch runs/NAME-1")
			}
			return nil
		},
	}
	c.RunE = func(c *cobra.Command, dirs []string) error { return f.run(c, dirs) }
	c.Flags().BoolVar(&f.once, "once", false, "print one frame and stop")
	return c
}

func (f *watchFlags) run(c *cobra.Command, dirs []string) error {
	runs := make([]*watched, len(dirs))
	for i, dir := range dirs {
		log, err := runlog.OpenWith(c.Context(), dir, runlog.Options{})
		if err != nil {
			return &Exit{CodeUsage, err}
		}
		defer log.Close()
		runs[i] = &watched{log}
	}
	out, isFile := monitor.UnderlyingFile(c.OutOrStdout())
	terminal, drawn := view.Terminal{}, false
	if isFile {
		terminal, drawn = view.OpenTerminal(out, os.LookupEnv)
	}
	switch {
	case f.once:
		if !drawn {
			terminal = view.PlainTerminal(os.LookupEnv, 100, 40)
		}
		for _, w := range runs {
			s := view.NewState()
			if err := w.fill(s); err != nil {
				return err
			}
			report, err := verdict.Of(w.log)
			if err != nil {
				return err
			}
			s.Limit, s.Warning = limitOf(report), warningOf(report)
			if _, err := io.WriteString(ignorePipeErrors(c.OutOrStdout()), s.Frame(terminal)); err != nil {
				return err
			}
		}
		return nil
	case !drawn:
		return watchLines(c.Context(), ignorePipeErrors(c.OutOrStdout()), runs)
	}
	return watchTerminal(c, out, terminal, runs)
}

// watchTerminal shows runs on a terminal until the user quits.
func watchTerminal(c *cobra.Command, out *os.File, t view.Terminal, runs []*watched) error {
	stop := stopOf(c.Context())
	stop.SetOutput(io.Discard) // a signal only ends the view
	defer stop.Graceful()()
	var keys *view.Keyboard
	if stdin, ok := c.InOrStdin().(*os.File); ok && term.IsTerminal(int(stdin.Fd())) {
		guard, err := startGuard(stdin)
		if err != nil {
			return err
		}
		defer guard.Close()
		keys = view.NewKeyboard(stdin, guard)
	}
	w := view.NewWatcher(out, t, keys, len(runs))
	ctx, cancel := context.WithCancel(c.Context())
	failed := make(chan error, len(runs))
	var following sync.WaitGroup
	for i, run := range runs {
		following.Go(func() {
			if err := run.follow(ctx, func(f func(*view.State)) { w.Update(i, f) }); err != nil {
				failed <- err
				cancel()
			}
		})
	}
	err := w.Run(ctx)
	cancel()
	following.Wait()
	close(failed)
	if err = errors.Join(err, <-failed); err == nil && stop.Requested() != nil {
		return &Exit{Code: stop.Requested().Code()}
	}
	return err
}

// watchLines writes a line for each new step, evaluation and event until all runs have ended.
func watchLines(ctx context.Context, out io.Writer, runs []*watched) error {
	var mu sync.Mutex
	errs := make([]error, len(runs))
	var all sync.WaitGroup
	for i, run := range runs {
		all.Go(func() {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			lines, prefix := monitor.NewLine(out), ""
			if len(runs) > 1 {
				prefix = run.log.Dir() + ": "
				lines = monitor.NewLine(prefixed{out, prefix})
			}
			errs[i] = run.lines(ctx, func(f func(*monitor.Line) error) error {
				mu.Lock()
				defer mu.Unlock()
				err := f(lines)
				if err != nil {
					cancel()
				}
				return err
			})
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// prefixed writes a prefix before each write, which is a line.
type prefixed struct {
	io.Writer
	prefix string
}

func (p prefixed) Write(b []byte) (int, error) {
	if _, err := io.WriteString(p.Writer, p.prefix+string(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// watched is a run that a view shows.
type watched struct{ log *runlog.Run }

// points is the number of points of a curve that are read.
const points = 400

// fill sets a state to what the run has written until now.
func (w *watched) fill(s *view.State) error {
	for _, name := range view.Metrics() {
		series, err := w.log.Series(name, 0, 0, points)
		if err != nil {
			return err
		}
		var means []float64
		var values int
		for _, b := range series.Buckets {
			if b.Count > 0 {
				means, values = append(means, b.Mean), values+b.Count
			}
		}
		if len(means) > 0 {
			s.Fill(name, means, values/len(means))
		}
	}
	record, evaluation, err := w.log.Last()
	if err != nil {
		return err
	}
	if record != nil {
		s.Show(*record)
	}
	if evaluation != nil {
		s.Evaluate(*evaluation)
	}
	events, err := w.log.Events()
	if err != nil {
		return err
	}
	for _, e := range events {
		showEvent(s, e)
	}
	if s.Saved == nil {
		s.Saved = w.saved()
	}
	w.describe(s)
	return nil
}

// follow passes what the run writes to update, until ctx is done.
func (w *watched) follow(ctx context.Context, update func(func(*view.State))) error {
	fresh := view.NewState()
	if err := w.fill(fresh); err != nil {
		return err
	}
	update(func(s *view.State) { *s = *fresh })
	var judging sync.WaitGroup
	defer judging.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	judging.Go(func() { w.judge(ctx, update) })
	for u, err := range w.log.Follow(ctx) {
		if err != nil {
			return err
		}
		if u.Reset {
			fresh := view.NewState()
			if err := w.fill(fresh); err != nil {
				return err
			}
			update(func(s *view.State) { *s = *fresh })
			continue
		}
		update(func(s *view.State) {
			for _, l := range u.Lines {
				switch {
				case l.Record != nil:
					s.Record(*l.Record)
				case l.Evaluation != nil:
					s.Evaluate(*l.Evaluation)
				}
			}
			for _, e := range u.Events {
				showEvent(s, e)
			}
			w.describe(s)
		})
	}
	return nil
}

// judgeEvery is the least time between two judgments of a run. A judgment of a long run that takes longer than a
// hundredth of it is less frequent, since it may compute beside the run.
const judgeEvery = 2 * time.Second

// judge passes the run's findings, its last checkpoint and its plan to update, until ctx is done.
func (w *watched) judge(ctx context.Context, update func(func(*view.State))) {
	for wait := time.Duration(0); sleep(ctx, wait); {
		began := time.Now()
		if _, err := w.log.Refresh(ctx); err != nil {
			return
		}
		report, err := verdict.Of(w.log)
		if err != nil {
			return
		}
		saved := w.saved()
		update(func(s *view.State) {
			s.Run.Planned = w.log.Card().Planned
			if s.Limit, s.Warning = limitOf(report), warningOf(report); saved != nil {
				s.Saved = saved
			}
		})
		wait = max(judgeEvery, 100*time.Since(began))
	}
}

// limitOf returns the limit of the speed; empty if unknown.
func limitOf(r verdict.Report) string {
	if r.Speed.Limit == "" {
		return ""
	}
	return r.Speed.Text
}

// warningOf is the most severe finding of the run's health; empty if there is none.
func warningOf(r verdict.Report) string {
	for _, f := range r.Findings {
		if f.Severity != verdict.Info && f.Kind != "speed" {
			return f.Text
		}
	}
	return ""
}

// saved returns the last checkpoint; nil if there is none.
func (w *watched) saved() *view.Checkpoint {
	events, err := w.log.Events()
	if err == nil {
		for _, e := range slices.Backward(events) {
			if e.Kind == monitor.EventCheckpoint {
				return &view.Checkpoint{Step: e.Step, Time: e.Time}
			}
		}
	}
	if all, err := w.log.Checkpoints(); err == nil && len(all) > 0 {
		return &view.Checkpoint{Step: all[len(all)-1].Step}
	}
	return nil
}

// sleep waits for d and reports whether ctx is not done.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return ctx.Err() == nil
	}
}

// lines passes the last record and then what the run writes as lines to print, until the run has ended.
func (w *watched) lines(ctx context.Context, print func(func(*monitor.Line) error) error) error {
	record, _, err := w.log.Last()
	if err != nil {
		return err
	}
	if record != nil {
		if err := print(func(l *monitor.Line) error { return l.Record(*record) }); err != nil {
			return err
		}
	}
	for u, err := range w.log.Follow(ctx) {
		if err != nil {
			return err
		}
		err := print(func(l *monitor.Line) error {
			for _, line := range u.Lines {
				var err error
				switch {
				case line.Record != nil && (record == nil || line.Record.Step > record.Step || u.Reset):
					err = l.Record(*line.Record)
				case line.Evaluation != nil:
					err = l.Evaluate(*line.Evaluation)
				}
				if err != nil {
					return err
				}
			}
			if u.Running {
				return nil
			}
			text, _ := howEnded(w.log.Card().Start)
			return l.Note(text)
		})
		if err != nil || !u.Running {
			return err
		}
	}
	return nil
}

// describe sets the facts of run.json, and whether the run has ended.
func (w *watched) describe(s *view.State) {
	c := w.log.Card()
	s.Run = view.Run{Dir: w.log.Dir(), About: aboutRun(c), Planned: c.Planned}
	if s.Over = !w.log.Running(); s.Over {
		s.Ended, s.Bad = howEnded(c.Start)
	}
}

func aboutRun(c rundir.Card) string {
	if c.Started.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s parameters, %s, %s, %s", monitor.Thousands(float64(c.Parameters)), number(int64(c.World), "rank"), c.Strategy, c.Device)
}

// howEnded describes the end of a start that no process continues.
func howEnded(s rundir.Start) (text string, bad bool) {
	if s.Exit == nil {
		return "not running; it did not end in order (killed, or its machine was lost)", true
	}
	text = map[int]string{
		CodeDone: "done", CodeFailed: "failed (code 1)", CodeUsage: "invalid configuration or input (code 2)", CodeStopped: "stopped early, with a checkpoint",
		CodePeerLost: "a rank hung or was lost (code 76)", CodeCrashed: "crashed (code 134)", 130: "stopped without a checkpoint (code 130)", 143: "stopped without a checkpoint (code 143)",
	}[*s.Exit]
	if text == "" {
		text = fmt.Sprintf("ended with code %d", *s.Exit)
	}
	if s.Ended != nil {
		text += " after " + monitor.Clock(s.Ended.Sub(s.Started).Round(time.Second))
	}
	return text, *s.Exit != CodeDone && *s.Exit != CodeStopped
}

// showEvent adds an event to a state.
func showEvent(s *view.State, e monitor.Event) {
	if e.Kind == monitor.EventCheckpoint {
		s.Saved = &view.Checkpoint{Step: e.Step, Time: e.Time}
	}
	text := e.Text
	if text == "" {
		text = string(e.Kind)
	}
	at := e.Time.Local().Format("15:04:05")
	if e.Step > 0 {
		at += fmt.Sprintf(" step %d", e.Step)
	}
	s.Note(at + "  " + text)
}
