package cli

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ticks is USER_HZ, ticks per second in /proc/self/stat.
const ticks = 100

// processStart returns the start of this process, to 10 ms, from field 22 of /proc/self/stat.
func processStart() (time.Time, error) {
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return time.Time{}, fmt.Errorf("start time of this process: %w", err)
	}
	// Field 2, the name, is in parentheses and may contain any byte.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 {
		return time.Time{}, fmt.Errorf("start time of this process: /proc/self/stat has %d fields", len(fields)+2)
	}
	start, err := strconv.ParseInt(string(fields[19]), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("start time of this process: %w", err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return time.Time{}, fmt.Errorf("start time of this process: %w", err)
	}
	age := time.Duration(now.Nano()) - time.Duration(start)*time.Second/ticks
	return time.Now().Add(-age), nil
}
