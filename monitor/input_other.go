//go:build !linux

package monitor

// pendingInput is not supported.
func pendingInput(int) func() int { return nil }
