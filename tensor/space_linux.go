package tensor

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dataLimited reports whether private memory is limited (ulimit -d, RLIMIT_DATA). The limit
// includes reserved memory.
func dataLimited() bool {
	var r unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_DATA, &r) == nil && r.Cur < 1<<46
}

// AddressSpace returns the process's address space limit (ulimit -v, RLIMIT_AS) and use, in bytes.
// limited is false without a limit.
func AddressSpace() (limit, used int64, limited bool) {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &r) != nil || r.Cur >= 1<<46 {
		return 0, 0, false
	}
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, 0, false
	}
	size, _, _ := strings.Cut(string(b), " ")
	pages, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return 0, 0, false
	}
	return int64(r.Cur), pages * int64(os.Getpagesize()), true
}
