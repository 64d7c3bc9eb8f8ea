package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// noticeable is the use of processor cores by other programs that a report mentions.
const noticeable = 0.2

// otherWork measures for a second how many cores other programs use, "0.6 of 2 cores"; "" if that is little or
// unknown. The average load of the system would count what this command's predecessor did.
func otherWork(ctx context.Context) (string, error) {
	before, ok := readCores()
	if !ok {
		return "", nil
	}
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(time.Second):
	}
	after, ok := readCores()
	if used := after.used(before); ok && used >= noticeable {
		return fmt.Sprintf("%.1f of %d cores", used, after.cores), nil
	}
	return "", nil
}

// coreTimes are the processor times since the start of the system, of all cores, and of this process in seconds.
type coreTimes struct {
	busy, all float64 // ticks
	cores     int
	own       float64
	at        time.Time
}

// used returns the cores that other programs used since before.
func (t coreTimes) used(before coreTimes) float64 {
	ticks, seconds := t.all-before.all, t.at.Sub(before.at).Seconds()
	if ticks <= 0 || seconds <= 0 {
		return 0
	}
	return max(0, (t.busy-before.busy)/ticks*float64(t.cores)-(t.own-before.own)/seconds)
}

func readCores() (coreTimes, bool) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return coreTimes{}, false
	}
	t, ok := parseCores(b)
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return coreTimes{}, false
	}
	t.own, t.at = time.Duration(u.Utime.Nano()+u.Stime.Nano()).Seconds(), time.Now()
	return t, ok
}

// parseCores reads /proc/stat: the fields of "cpu" are user, nice, system, idle, iowait, irq, softirq and steal.
func parseCores(b []byte) (t coreTimes, ok bool) {
	for line := range bytes.Lines(b) {
		f := strings.Fields(string(line))
		if len(f) == 0 || !strings.HasPrefix(f[0], "cpu") {
			continue
		}
		if f[0] != "cpu" {
			t.cores++
			continue
		}
		for i, s := range f[1:min(len(f), 9)] {
			n, err := strconv.ParseFloat(s, 64)
			if err != nil {
				return t, false
			}
			if t.all += n; i != 3 && i != 4 {
				t.busy += n
			}
		}
	}
	return t, t.all > 0 && t.cores > 0
}
