package trace

import "time"

var (
	start  = time.Now()
	offset = systemClock() // Now at start
)

// Now returns the time in nanoseconds: on Linux of CLOCK_MONOTONIC, elsewhere of the wall clock when the process
// started, continued by the monotonic clock.
func Now() int64 { return offset + int64(time.Since(start)) }

// Elapsed returns the time since a time of Now.
func Elapsed(since int64) time.Duration { return time.Duration(Now() - since) }
