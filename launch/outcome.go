package launch

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// stopCode is the code of a stop that was asked for and saved nothing.
func (a *attempt) stopCode() int { return (&StopRequest{Signal: a.asked}).Code() }

// outcome gives a worker's code, and whether it ended as it should.
func (a *attempt) outcome(w *worker) (int, bool) {
	if w.state == nil {
		return CodeFailed, false
	}
	ws := w.state.Sys().(syscall.WaitStatus)
	code := ws.ExitStatus()
	if ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	if a.asked != 0 && (code == a.stopCode()) {
		return a.stopCode(), true // it had nothing to save, or did not listen yet
	}
	return code, code == CodeDone || code == CodeStopped
}

// first is the worker that failed first, not counting those that say another did, and rank
// 0 if it ended in the same way as that one: what it said has been read already.
func (a *attempt) first() *worker {
	var first *worker
	for _, w := range a.failed {
		switch code, _ := a.outcome(w); {
		case first == nil:
			first = w
		case code == CodePeerLost:
		default:
			if c, _ := a.outcome(first); c == CodePeerLost || w.rank == 0 && c == code && code < 128 {
				first = w
			}
		}
	}
	return first
}

// describe makes the failure of the first worker known.
func (a *attempt) describe(w *worker, oom oomCount) *Failure {
	stack := readCrash(w.crash)
	w.drain()
	f := &Failure{Rank: w.rank, After: w.at.Sub(a.began), Log: a.cfg.logPath(w.rank), Others: a.stopped + len(a.failed) - 1}
	f.Code, _ = a.outcome(w)
	if w.state != nil {
		if ws := w.state.Sys().(syscall.WaitStatus); ws.Signaled() {
			f.Signal = ws.Signal()
		}
	}
	if f.Signal == syscall.SIGKILL {
		f.OutOfMemory, f.MemoryLimit = readOOM().since(oom)
	}
	f.Lines = w.out.tail.lines(tailLines)
	f.Shown = a.cfg.ShowAll || w.rank == a.cfg.NodeRank*a.cfg.Nproc
	why := ""
	if len(f.Lines) > 0 && crashBegins([]byte(f.Lines[0])) {
		why = f.Lines[0]
	}
	if f.Code == CodeUsage && why != "" { // Go's own code, from before HandleSignals
		f.Code, f.Crash, f.Shown = CodeCrashed, why, true
	}
	if f.Code == CodeCrashed && len(stack) > 0 {
		f.Crash, _, _ = strings.Cut(string(stack), "\n")
		if why != "" && why != f.Crash { // of a fatal error only the stacks are in the file
			f.Crash = why
			stack = slices.Concat([]byte(why+"\n"), stack)
		}
		kept := &dump{dir: a.cfg.LogDir, name: RankName(w.rank)}
		if path, err := kept.crash(string(stack)); err == nil { // else its log has it
			f.Stack, f.Log = path, ""
		}
		f.Shown = true // the stack is not for a terminal
	}
	return f
}

// readCrash is what Go's runtime wrote when it ended a worker.
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

// credible are the blames but for those of ranks that ended as they should, such as one that had
// nothing to save yet when all were asked to stop.
func (a *attempt) credible() []message {
	return slices.DeleteFunc(slices.Clone(a.accusations), func(b message) bool {
		return slices.ContainsFunc(a.workers.all, func(w *worker) bool {
			_, ok := a.outcome(w)
			return w.rank == *b.Blames && ok
		})
	})
}

// describeLost makes it known that others blame a rank, which may be another machine's.
func (a *attempt) describeLost(b *message) *Failure {
	f := &Failure{Rank: *b.Blames, Code: CodePeerLost, Why: b.Why, After: time.Since(a.began), Others: a.stopped + len(a.failed)}
	for _, w := range a.workers.all {
		if w.rank != f.Rank {
			continue
		}
		w.drain()
		f.Lines, f.Log = w.out.tail.lines(tailLines), a.cfg.logPath(w.rank)
		f.Shown = a.cfg.ShowAll || w.rank == a.cfg.NodeRank*a.cfg.Nproc
		f.Others-- // it is among those that were ended
	}
	return f
}

// tailLines is how many of the failed rank's last lines are kept.
const tailLines = 20
