package launch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"trireme/flight"
)

// stopCode is the exit code of a stop without a checkpoint.
func (a *attempt) stopCode() int { return (&StopRequest{Signal: a.stopSignal}).Code() }

// outcome returns a worker's exit code and whether it is a success.
func (a *attempt) outcome(w *worker) (int, bool) {
	if w.state == nil {
		return CodeFailed, false
	}
	ws := w.state.Sys().(syscall.WaitStatus)
	code := ws.ExitStatus()
	if ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	if a.stopSignal != 0 && (code == a.stopCode()) {
		return a.stopCode(), true // nothing to save, or signals not handled yet
	}
	return code, code == CodeDone || code == CodeStopped && !a.cfg.Foreign
}

// firstFailed returns the worker that failed first, ignoring those with CodePeerLost; or rank 0 if it failed
// with the same code, if only its output was shown.
func (a *attempt) firstFailed() *worker {
	var first *worker
	for _, w := range a.failed {
		switch code, _ := a.outcome(w); {
		case first == nil:
			first = w
		case code == CodePeerLost:
		default:
			if c, _ := a.outcome(first); c == CodePeerLost || w.rank == 0 && !a.cfg.Output.All && c == code && code < 128 {
				first = w
			}
		}
	}
	return first
}

func (a *attempt) workerFailure(w *worker, oom oomCount) *Failure {
	stack := readCrash(w.crash)
	w.readRest()
	f := &Failure{Rank: w.rank, Ranks: w.ranks, Foreign: a.cfg.Foreign, After: w.at.Sub(a.began), Log: a.cfg.logOf(w)}
	f.Code, _ = a.outcome(w)
	if w.state != nil {
		if ws := w.state.Sys().(syscall.WaitStatus); ws.Signaled() {
			f.Signal = ws.Signal()
		}
	}
	if rank, ok := a.firsts[w.rank]; ok && f.Signal == 0 {
		f.Rank, f.Ranks = rank, 1
	}
	f.Others = a.ended() - f.Ranks
	if f.Signal != 0 {
		f.Doing = a.cfg.lastSeen(a.workers.all, w)
	}
	if f.Signal == syscall.SIGKILL {
		f.OutOfMemory, f.MemoryLimit = readOOM().since(oom)
	}
	f.Reason = readReason(w.errorFile)
	f.Lines = w.tail.lines(tailLines)
	f.Shown = a.cfg.shownAlone(w)
	why := ""
	if len(f.Lines) > 0 && crashBegins([]byte(f.Lines[0])) {
		why = f.Lines[0]
	}
	if f.Code == CodeUsage && why != "" { // a Go panic before HandleSignals
		f.Code, f.Crash, f.Shown = CodeCrashed, why, true
	}
	if f.Code == CodeCrashed && len(stack) > 0 {
		f.Crash, _, _ = strings.Cut(string(stack), "\n")
		if why != "" && why != f.Crash { // for a fatal error the file has only the stacks
			f.Crash = why
			stack = slices.Concat([]byte(why+"\n"), stack)
		}
		kept := &dump{dir: a.cfg.LogDir, name: RankName(f.Rank)}
		if path, err := kept.crash(string(stack)); err == nil { // else the log has it
			f.Stack, f.Log = path, ""
		}
		f.Shown = true // keep the stack off the terminal
	}
	return f
}

func readCrash(f *os.File) []byte {
	if f == nil {
		return nil
	}
	st, err := f.Stat()
	if err != nil {
		return nil
	}
	b := make([]byte, st.Size())
	n, _ := f.ReadAt(b, 0)
	return b[:n]
}

// credible returns the reports, except those about ranks that ended successfully, such as one without a step
// when all were stopped.
func (a *attempt) credible() []message {
	return slices.DeleteFunc(slices.Clone(a.accusations), func(b message) bool {
		return slices.ContainsFunc(a.workers.all, func(w *worker) bool {
			_, ok := a.outcome(w)
			return w.has(*b.RootCause) && ok
		})
	})
}

// lostFailure returns the Failure of a reported rank, which may be on another machine.
func (a *attempt) lostFailure(b *message) *Failure {
	f := &Failure{Rank: *b.RootCause, Code: CodePeerLost, Why: b.Why, After: time.Since(a.began), Others: a.ended()}
	for _, w := range a.workers.all {
		if !w.has(f.Rank) {
			continue
		}
		if f.Ranks = 1; b.From < 0 { // the launcher reports processes
			f.Ranks = w.ranks
		}
		if !f.named() && !strings.Contains(f.Why, flight.SeenPrefix) { // else Why has it
			f.Doing = a.cfg.lastSeen(a.workers.all, w)
		}
		w.readRest()
		f.Lines, f.Log = w.tail.lines(tailLines), a.cfg.logOf(w)
		f.Shown = a.cfg.shownAlone(w)
		f.Others -= f.Ranks // it is counted among the stopped
	}
	return f
}

// lastSeen describes what the first rank of a worker did last, and the collective in which the others of this machine
// waited for it, if ranks record their states in the log directory.
func (c Config) lastSeen(all []*worker, w *worker) string {
	if c.LogDir == "" {
		return ""
	}
	read := func(w *worker) *flight.State {
		s, err := flight.ReadFile(filepath.Join(c.LogDir, flight.FileName(w.rank)))
		if err != nil || s.PID != w.cmd.Process.Pid || s.Rank != w.rank {
			return nil
		}
		return s
	}
	s := read(w)
	if s == nil {
		return ""
	}
	states := make([]*flight.State, s.Size)
	for _, w := range all {
		if s := read(w); s != nil && s.Size == len(states) {
			states[w.rank] = s
		}
	}
	if missed := flight.Missed(states, w.rank); missed != "" {
		return s.LastSeen() + "; " + missed
	}
	return s.LastSeen()
}

// ended returns the number of ranks that failed or were stopped.
func (a *attempt) ended() int {
	n := a.stopped
	for _, w := range a.failed {
		n += w.ranks
	}
	return n
}

// tailLines is the number of the failed rank's last lines that are kept.
const tailLines = 20
