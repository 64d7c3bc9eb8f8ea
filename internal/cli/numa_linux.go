package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// autoRanks returns the number of NUMA nodes with a processor available to this process, or 1 if
// unknown. One rank per node keeps memory accesses local.
func autoRanks() int {
	var allowed unix.CPUSet
	if unix.SchedGetaffinity(0, &allowed) != nil {
		return 1
	}
	lists, _ := filepath.Glob("/sys/devices/system/node/node[0-9]*/cpulist") // the pattern is valid
	nodes := 0
	for _, path := range lists {
		b, err := os.ReadFile(path)
		if err == nil && anyCPU(strings.TrimSpace(string(b)), allowed.IsSet) {
			nodes++
		}
	}
	return max(1, nodes)
}

// anyCPU reports whether a list such as 0-3,8 contains an allowed processor.
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
