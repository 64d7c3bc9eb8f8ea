package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// autoRanks is the number of NUMA nodes that have a processor for this process: threads of one rank
// share memory, and ranks exchange what they need, so that a rank for each node keeps memory near.
// It is 1 where that is not known.
func autoRanks() int {
	var allowed unix.CPUSet
	if unix.SchedGetaffinity(0, &allowed) != nil {
		return 1
	}
	lists, _ := filepath.Glob("/sys/devices/system/node/node[0-9]*/cpulist") // the pattern is sound
	nodes := 0
	for _, path := range lists {
		b, err := os.ReadFile(path)
		if err == nil && anyCPU(strings.TrimSpace(string(b)), allowed.IsSet) {
			nodes++
		}
	}
	return max(1, nodes)
}

// anyCPU says whether a processor of a list such as 0-3,8 is among those allowed.
func anyCPU(list string, allowed func(cpu int) bool) bool {
	for part := range strings.SplitSeq(list, ",") {
		from, to, ranged := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if ranged && err == nil {
			last, err = strconv.Atoi(to)
		}
		for cpu := first; err == nil && cpu <= last; cpu++ {
			if allowed(cpu) {
				return true
			}
		}
	}
	return false
}
