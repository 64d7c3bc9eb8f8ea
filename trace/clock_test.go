//go:build linux

package trace

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestNow(t *testing.T) {
	for range 10 {
		var ts unix.Timespec
		before := Now()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			t.Fatal(err)
		}
		if after := Now(); ts.Nano() < before-20_000 || ts.Nano() > after+20_000 {
			t.Errorf("the system's clock %d is outside %d to %d", ts.Nano(), before, after)
		}
	}
}
