package cli

import (
	"context"
	"errors"
	"os"

	"trireme/checkpoint"
	"trireme/launch"
)

type stopKey struct{}

// withStop is the context of a command: it ends when a signal asks this process to stop.
func withStop(stop *launch.Stop) context.Context {
	return context.WithValue(stop.Context(), stopKey{}, stop)
}

// stopOf is the process's stop state, of which Main makes one before anything else.
func stopOf(ctx context.Context) *launch.Stop { return ctx.Value(stopKey{}).(*launch.Stop) }

// untilStopped does something long that is not yet a run. A signal cancels it, and counts also when
// it came too late for that: the error says what was stopped, and what is left of it.
func untilStopped(ctx context.Context, doing, left string, do func(context.Context) error) error {
	stop := stopOf(ctx)
	defer stop.Hold()()
	err := do(ctx)
	asked := stop.Asked()
	if asked == nil {
		return err
	}
	return &Exit{asked.Code(), &Problem{Text: "stopped while " + doing + ": " + left, Err: err}}
}

// ending is the error of a run that was asked to stop. Before the first step every error is a
// consequence of the stop, on this rank or another, and the run has saved nothing: the same command
// continues from an older checkpoint, if it resumes and there is one, or begins anew.
func (j *job) stopError(ctx context.Context, err error) error {
	asked := stopOf(ctx).Asked()
	if asked == nil || err == nil || j.stepping && codeOf(err) != asked.Code() {
		return err
	}
	var said *Problem
	errors.As(err, &said)
	switch path := j.resumable(); {
	case errors.Is(err, launch.ErrKilled), launch.Tied(os.LookupEnv): // the launcher says it
		return &Exit{Code: asked.Code()}
	case path != "":
		return &Exit{CodeStopped, &Problem{Text: "stopped before a step was made; " + path + " is good", Try: "the same command", Err: err}}
	case said != nil:
		return &Exit{asked.Code(), said}
	}
	return &Exit{asked.Code(), &Problem{Text: "stopped before the first step; nothing was saved", Try: "the same command", Err: err}}
}

// resumable is the checkpoint that the same command goes on from, or "".
func (j *job) resumable() string {
	switch j.cfg.Resume {
	case "", "none":
		return ""
	case "auto":
		path, _, err := checkpoint.Latest(j.cfg.Checkpoint.Directory(j.cfg.OutputDir), j.run.ID)
		if err != nil {
			return ""
		}
		return path
	}
	return j.cfg.Resume
}
