//go:build !linux

package cli

// autoRanks returns 1: the NUMA nodes are unknown.
func autoRanks() int { return 1 }
