package pjrt_test

import (
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"trireme/internal/pjrt"
)

// signals returns the lines of /proc/self/status about signals, "" on other systems.
func signals(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return ""
	}
	var out string
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "SigIgn") || strings.HasPrefix(line, "SigCgt") {
			out += line
		}
	}
	return out
}

// A plug-in leaves the process's signals as they are, and the rounding of the threads that call it:
// the host computes the same bits before and after.
func TestProcess(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := signals(t)
	c := client(t, 2)
	d := c.Devices()[0]
	e := compile(t, c, matmul, pjrt.CompileOptions{})
	execute(t, e, d, upload(t, d, []int{2, 3}, 1, 2, 3, 4, 5, 6), upload(t, d, []int{3, 2}, 1, 0, 0, 1, 1, 1), upload(t, d, []int{2, 2}, 10, 20, 30, 40))
	if after := signals(t); after != before {
		t.Errorf("signals before:\n%safter:\n%s", before, after)
	}
	tiny, third, one := math.Float32frombits(2), float32(3), float32(1) // variables: the compiler would compute with constants
	if got := math.Float32bits(tiny / 2); got != 1 {
		t.Errorf("half of a denormal number is %#x", got)
	}
	if got := math.Float32bits(one / third); got != 0x3eaaaaab {
		t.Errorf("1/3 is %#x", got)
	}
}
