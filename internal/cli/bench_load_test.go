package cli

import (
	"math"
	"testing"
	"time"
)

// Cores that other programs use are those in use without this process; idle cores and waits for disks are not in use.
func TestOtherWork(t *testing.T) {
	before, ok := parseCores([]byte("cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 50 0 25 400 25 0 0 0 7 0\ncpu1 50 0 25 400 25 0 0 0 0 0\nintr 5\n"))
	if !ok || before.cores != 2 || before.busy != 150 || before.all != 1000 {
		t.Fatalf("%+v, %v", before, ok)
	}
	after, _ := parseCores([]byte("cpu  150 10 60 900 60 5 5 10 7 0\ncpu0 1\ncpu1 1\n"))
	before.at, after.at, after.own = time.Unix(0, 0), time.Unix(1, 0), 0.2
	if got, want := after.used(before), 90.0/200*2-0.2; math.Abs(got-want) > 1e-12 {
		t.Errorf("%v cores, want %v", got, want)
	}
	after.own = 5
	if got := after.used(before); got != 0 {
		t.Errorf("%v cores beside a process that used all", got)
	}
	for _, bad := range []string{"", "cpu  1 x 3\ncpu0 1\n", "cpu\n", "cpu 1 2 3 4\n"} {
		if _, ok := parseCores([]byte(bad)); ok {
			t.Errorf("%q is accepted", bad)
		}
	}
}
