//go:build !linux

package monitor

// pendingInput is not known on this system.
func pendingInput(int) func() int { return nil }
