package cli

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ticks of /proc/self/stat in a second: USER_HZ, which is part of Linux's interface.
const ticks = 100

// processStart is when this process began, to a hundredth of a second: field 22 of
// /proc/self/stat counts ticks from the start of the machine.
func processStart() (time.Time, error) {
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return time.Time{}, fmt.Errorf("when this process began: %w", err)
	}
	// The name, field 2, stands in brackets and may hold anything.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 {
		return time.Time{}, fmt.Errorf("when this process began: /proc/self/stat has %d fields", len(fields)+2)
	}
	start, err := strconv.ParseInt(string(fields[19]), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("when this process began: %w", err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return time.Time{}, fmt.Errorf("when this process began: %w", err)
	}
	age := time.Duration(now.Nano()) - time.Duration(start)*time.Second/ticks
	return time.Now().Add(-age), nil
}
