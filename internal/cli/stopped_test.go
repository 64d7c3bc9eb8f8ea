package cli

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
)

func TestUntilStopped(t *testing.T) {
	for sig, code := range map[os.Signal]int{syscall.SIGINT: CodeInterrupted, syscall.SIGTERM: CodeTerminated} {
		err := untilStopped(t.Context(), "waiting", "nothing is left", func(ctx context.Context) error {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Signal(sig)
			}
			if err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		})
		var e *Exit
		if !errors.As(err, &e) || e.Code != code || !errors.Is(err, context.Canceled) {
			t.Errorf("%v: %v", sig, err)
		}
	}
	if err := untilStopped(t.Context(), "waiting", "", func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
}
