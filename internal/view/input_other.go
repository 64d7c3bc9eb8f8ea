//go:build !linux

package view

// pendingInput is not supported.
func pendingInput(int) func() int { return nil }
