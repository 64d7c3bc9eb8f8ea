//go:build !linux

package numa

import (
	"fmt"
	"runtime"
)

// Allowed returns an error: processes are bound on Linux only.
func Allowed() (CPUs, error) {
	return nil, fmt.Errorf("numa: processes are not bound on %s", runtime.GOOS)
}

// SetThread returns an error.
func SetThread(CPUs) error { return fmt.Errorf("numa: processes are not bound on %s", runtime.GOOS) }
