package tensor

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dataLimited reports whether private memory has a limit (ulimit -d, RLIMIT_DATA), in which the
// system counts what is reserved too.
func dataLimited() bool {
	var r unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_DATA, &r) == nil && r.Cur < 1<<46
}

// AddressSpace says how many bytes of address space this process may have (ulimit -v, RLIMIT_AS),
// and how many it has now. limited is false where there is no limit.
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
