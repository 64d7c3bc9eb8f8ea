package launch

import (
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Failure is the failure of a job: its root-cause rank.
type Failure struct {
	Rank   int            // -1: a whole machine, which Why names
	Host   string         // of the rank, in a job on several machines
	Ranks  int            // of a process that ended with all its ranks, Rank the first; 0 or 1: Rank alone
	Code   int            // exit code, or 128 + Signal
	Signal syscall.Signal // that killed it, or 0
	Why    string         // of a lost, hung or stopped rank: the report of others
	Doing  string         // last activity of a killed or stopped rank that records its state
	After  time.Duration  // since the start of the workers

	// OutOfMemory reports that the kernel's OOM killer killed a process of this job's cgroup.
	// MemoryLimit is the cgroup's limit in bytes, or 0.
	OutOfMemory bool
	MemoryLimit int64

	Reason string // message that the program wrote to TORCHELASTIC_ERROR_FILE, in one line, or ""

	Crash string // first line of the Go runtime's crash output, or ""
	Stack string // path of the stacks, or ""

	Lines    []string // the last lines of its output
	Shown    bool     // its output was shown on the terminal
	Log      string   // path of its log, or ""
	Others   int      // number of other ranks that stopped because of it; from Run, those of this machine
	Foreign  bool     // of Config
	Restarts int      // of the job, before this start; Run leaves it 0
}

// named reports whether Why is a sentence that names the ranks: a hang (package flight), or ranks that called
// different operations (package collective).
func (f *Failure) named() bool {
	return strings.HasPrefix(f.Why, "hang: ") || strings.HasPrefix(f.Why, "ranks called ")
}

// Error returns one line: the rank, how it ended, the other ranks, the log.
func (f *Failure) Error() string {
	var b strings.Builder
	who := rankNames(f.Rank, f.Ranks)
	if f.Rank >= 0 && !strings.HasPrefix(f.Why, who+" ") && !f.named() { // else Why is the sentence
		b.WriteString(who + " ")
		if f.Host != "" {
			b.WriteString("on " + f.Host + " ")
		}
	}
	switch {
	case b.Len() == 0:
		b.WriteString(f.Why)
	case f.Why != "":
		fmt.Fprintf(&b, "is lost, hung or stopped (%s)", f.Why)
	case f.Crash != "":
		fmt.Fprintf(&b, "crashed (%s)", f.Crash)
	case f.Signal == syscall.SIGKILL:
		b.WriteString("was killed (signal 9)")
	case f.Signal != 0:
		fmt.Fprintf(&b, "was killed by %s (signal %d)", unix.SignalName(f.Signal), int(f.Signal))
	default:
		fmt.Fprintf(&b, "exited with code %d", f.Code)
	}
	switch {
	case f.named():
		fmt.Fprintf(&b, ". the job ended after %v", f.After.Round(10*time.Millisecond))
	case f.Rank >= 0:
		fmt.Fprintf(&b, " after %v", f.After.Round(10*time.Millisecond))
	}
	if f.Doing != "" {
		b.WriteString("; " + f.Doing)
	}
	if f.OutOfMemory {
		b.WriteString(": out of host memory")
		if f.MemoryLimit > 0 {
			fmt.Fprintf(&b, ", cgroup limit %.3g GiB", float64(f.MemoryLimit)/(1<<30))
		}
	}
	if f.Reason != "" {
		b.WriteString(": " + f.Reason)
	}
	if f.Others == 1 {
		b.WriteString(". 1 other rank stopped because of this")
	} else if f.Others > 1 {
		fmt.Fprintf(&b, ". %d other ranks stopped because of this", f.Others)
	}
	if f.Restarts == 1 {
		b.WriteString(". gave up after 1 restart")
	} else if f.Restarts > 1 {
		fmt.Fprintf(&b, ". gave up after %d restarts", f.Restarts)
	}
	if f.Stack != "" {
		b.WriteString(". stack: " + f.Stack)
	}
	if f.Log != "" {
		b.WriteString(". log: " + f.Log)
	}
	return b.String()
}

// Report writes the rank's last lines, unless already shown, and the error.
func (f *Failure) Report(w io.Writer) {
	if !f.Shown && len(f.Lines) > 0 {
		fmt.Fprintf(w, "last output of %s:\n", rankNames(f.Rank, f.Ranks))
		for _, l := range f.Lines {
			fmt.Fprintf(w, "  %s\n", l)
		}
	}
	fmt.Fprintln(w, f.Error())
}

// Retry reports whether a restart may help: it does not after a usage error or a failed check.
func (f *Failure) Retry() bool {
	return f.Foreign || f.Code != CodeUsage && f.Code != CodeNo && f.Code != CodeAuth
}
