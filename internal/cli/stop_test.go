package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"

	"trireme/launch"
)

func nowhere(string) (string, bool) { return "", false }

func newStop(t *testing.T) *launch.Shutdown {
	stop := launch.HandleSignals(nowhere, io.Discard, nil)
	t.Cleanup(stop.Close)
	return stop
}

func TestUntilStopped(t *testing.T) {
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: CodeInterrupted, syscall.SIGTERM: CodeTerminated, syscall.SIGUSR1: CodeTerminated} {
		for _, late := range []bool{false, true} { // do ignores its context
			stop := launch.HandleSignals(nowhere, io.Discard, nil)
			err := untilStopped(withStop(stop), "waiting", "nothing is left", func(ctx context.Context) error {
				if err := syscall.Kill(os.Getpid(), sig); err != nil {
					return err
				}
				<-ctx.Done()
				if late {
					return nil
				}
				return ctx.Err()
			})
			var e *Exit
			if !errors.As(err, &e) || e.Code != code || !late && !errors.Is(err, context.Canceled) {
				t.Errorf("%v, late %v: %v", sig, late, err)
			}
			// The signal is not forgotten afterwards.
			if err := untilStopped(withStop(stop), "", "", func(context.Context) error { return nil }); err == nil {
				t.Errorf("%v was forgotten", sig)
			}
			stop.Close()
		}
	}
	if err := untilStopped(withStop(newStop(t)), "waiting", "", func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
}
