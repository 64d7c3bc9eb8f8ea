//go:build !linux

package cli

// autoRanks is 1: the machine's NUMA nodes are not known.
func autoRanks() int { return 1 }
