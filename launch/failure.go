package launch

import (
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Failure is the end of a job by the first worker that failed.
type Failure struct {
	Rank   int
	Code   int            // its exit code, or 128 + Signal
	Signal syscall.Signal // that ended it, or 0
	Why    string         // of a rank that hangs, is stopped or was lost: what others say of it
	After  time.Duration  // from the start of this attempt

	// OutOfMemory says that the kernel killed a process of this job's memory group meanwhile;
	// MemoryLimit is the group's, in bytes, or 0.
	OutOfMemory bool
	MemoryLimit int64

	Crash string // the first line of what Go's runtime wrote when it ended the rank; "": it did not
	Stack string // path of the rest

	Lines    []string // the last it wrote
	Shown    bool     // its output has gone to the terminal as it came
	Log      string   // path, or ""
	Others   int      // ranks of this machine that were stopped, or failed, because of it
	Restarts int      // that came before
}

// Error is one line: which rank, how it ended, who else, where to look.
func (f *Failure) Error() string {
	var b strings.Builder
	if !strings.HasPrefix(f.Why, fmt.Sprintf("rank %d ", f.Rank)) { // which says it itself
		fmt.Fprintf(&b, "rank %d ", f.Rank)
	}
	switch {
	case b.Len() == 0:
		b.WriteString(f.Why)
	case f.Why != "":
		fmt.Fprintf(&b, "hangs, is stopped or was lost (%s)", f.Why)
	case f.Crash != "":
		fmt.Fprintf(&b, "crashed (%s)", f.Crash)
	case f.Signal == syscall.SIGKILL:
		b.WriteString("was killed (signal 9)")
	case f.Signal != 0:
		fmt.Fprintf(&b, "died of %s (signal %d)", unix.SignalName(f.Signal), int(f.Signal))
	default:
		fmt.Fprintf(&b, "exited with code %d", f.Code)
	}
	fmt.Fprintf(&b, " after %v", f.After.Round(10*time.Millisecond))
	if f.OutOfMemory {
		b.WriteString(": out of host memory")
		if f.MemoryLimit > 0 {
			fmt.Fprintf(&b, ", cgroup limit %.3g GiB", float64(f.MemoryLimit)/(1<<30))
		}
	}
	if f.Others == 1 {
		b.WriteString(". 1 other rank stopped because of this")
	} else if f.Others > 1 {
		fmt.Fprintf(&b, ". %d other ranks stopped because of this", f.Others)
	}
	if f.Restarts > 0 {
		fmt.Fprintf(&b, ". %d restarts did not help", f.Restarts)
	}
	if f.Stack != "" {
		b.WriteString(". stack: " + f.Stack)
	}
	if f.Log != "" {
		b.WriteString(". log: " + f.Log)
	}
	return b.String()
}

// Report writes the rank's last lines, unless they have been seen, and then the error.
func (f *Failure) Report(w io.Writer) {
	if !f.Shown && len(f.Lines) > 0 {
		fmt.Fprintf(w, "rank %d wrote last:\n", f.Rank)
		for _, l := range f.Lines {
			fmt.Fprintf(w, "  %s\n", l)
		}
	}
	fmt.Fprintln(w, f.Error())
}

// retry says whether another attempt may end differently.
func (f *Failure) retry() bool {
	return f.Code != CodeUsage && f.Code != CodeNo && f.Code != CodeAuth
}
