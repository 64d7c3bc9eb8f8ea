package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"trireme/checkpoint"
	"trireme/launch"
)

type stopKey struct{}

// withStop returns the context of a command, which a stop signal cancels.
func withStop(stop *launch.Shutdown) context.Context {
	return context.WithValue(stop.Context(), stopKey{}, stop)
}

// stopOf returns the process's stop state, which Main creates.
func stopOf(ctx context.Context) *launch.Shutdown { return ctx.Value(stopKey{}).(*launch.Shutdown) }

// untilStopped runs a long preparation that a signal cancels. After a signal it returns an error, even
// if do finished; the message says what was stopped and what remains.
func untilStopped(ctx context.Context, doing, left string, do func(context.Context) error) error {
	stop := stopOf(ctx)
	defer stop.Graceful()()
	err := do(ctx)
	asked := stop.Requested()
	if asked == nil {
		return err
	}
	return &Exit{asked.Code(), &Problem{Text: "stopped while " + doing + ": " + left, Err: err}}
}

// stopError returns the error of a run after a stop signal. Before the first step every error follows
// from the stop and nothing is saved: the same command continues from an older checkpoint or starts
// over.
func (j *job) stopError(ctx context.Context, err error) error {
	asked := stopOf(ctx).Requested()
	if asked == nil || err == nil || j.stepping && codeOf(err) != asked.Code() {
		return err
	}
	var said *Problem
	errors.As(err, &said)
	switch path := j.resumable(); {
	case launch.IsWorker(os.LookupEnv): // the launcher reports it
		return &Exit{Code: asked.Code()}
	case errors.Is(err, launch.ErrKilled) && said != nil: // said already
		return err
	case errors.Is(err, launch.ErrKilled):
		return j.killed(err)
	case path != "":
		return &Exit{CodeStopped, &Problem{Text: "stopped before the first step; the last checkpoint is " + path, Try: "the same command", Err: err}}
	case said != nil:
		return &Exit{asked.Code(), said}
	}
	return &Exit{asked.Code(), &Problem{Text: "stopped before the first step; nothing was saved", Try: "the same command", Err: err}}
}

// killed returns the error of a run that a second Ctrl-C ended.
func (j *job) killed(err error) error {
	text, step := "stopped at once by the second Ctrl-C", j.lastStep()
	if step > 0 {
		text += fmt.Sprintf(", after step %d", step)
	}
	if path := j.newest(); path != "" {
		text += "; the last checkpoint is " + path
	} else {
		text += "; there is no checkpoint"
	}
	return &Exit{CodeInterrupted, &Problem{Text: text, Try: "the same command with --resume auto", Err: err}}
}

// atKill returns what the only process of a run does when a second Ctrl-C ends it: it says so, and records it.
func (j *job) atKill(c card, stderr io.Writer) func() {
	return func() {
		report(stderr, j.killed(launch.ErrKilled))
		_ = errors.Join(c.close(CodeInterrupted), j.noteStop(CodeInterrupted)) // the process ends either way
	}
}

// resumable returns the checkpoint that the same command resumes from, or "".
func (j *job) resumable() string {
	switch j.cfg.Resume {
	case "", "none":
		return ""
	case "auto":
		return j.newest()
	}
	return j.cfg.Resume
}

// newest returns the run's newest checkpoint, or "".
func (j *job) newest() string {
	path, _, err := checkpoint.Latest(j.cfg.Checkpoint.Directory(j.cfg.OutputDir), j.run.ID)
	if err != nil {
		return ""
	}
	return path
}
