package trace

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// systemClock returns CLOCK_MONOTONIC at start. Go's clock is the same one with another zero, so it is enough to
// read both once; the closest of a few readings is used.
func systemClock() int64 {
	at, closest := int64(0), time.Duration(math.MaxInt64)
	for range 16 {
		var ts unix.Timespec
		before := time.Since(start)
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			return start.UnixNano()
		}
		after := time.Since(start)
		if d := after - before; d < closest {
			at, closest = ts.Nano()-int64(before+d/2), d
		}
	}
	return at
}
