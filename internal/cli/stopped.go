package cli

import (
	"context"
	"os"

	"trireme/launch"
)

// untilStopped does something long that is not yet a run. A signal cancels it: the error then says
// what was stopped, and what is left of it.
func untilStopped(ctx context.Context, doing, left string, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := launch.OnStop(nil)
	defer stop.Close()
	go func() {
		select {
		case <-stop.Asked():
			cancel()
		case <-ctx.Done():
		}
	}()
	err := do(ctx)
	if err == nil || !stop.Requested() {
		return err
	}
	code := CodeTerminated
	if stop.Why() == os.Interrupt.String() {
		code = CodeInterrupted
	}
	return &Exit{code, &Problem{What: "stopped while " + doing + ": " + left, Err: err}}
}
