//go:build !linux

package monitor

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// ReadResident reads the peak, which is also returned as Now: without cgo the operating system gives
// no more.
func ReadResident() (Resident, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return Resident{}, fmt.Errorf("monitor: getrusage: %w", err)
	}
	peak := int64(u.Maxrss)
	if runtime.GOOS != "darwin" && runtime.GOOS != "ios" {
		peak <<= 10 // kilobytes there, bytes on darwin
	}
	return Resident{Now: peak, Peak: peak}, nil
}
