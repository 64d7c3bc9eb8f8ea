package launch

import (
	"fmt"
	"os"
	"slices"
	"syscall"

	"trireme/rendezvous"
)

func (a *attempt) receive(w message) {
	switch {
	case w.RootCause != nil:
		a.accusations = append(a.accusations, w)
	case w.Failed != nil:
		a.firsts[w.From] = *w.Failed
	case w.Stopping:
		a.acked[w.From] = true
	case w.Ready:
		a.ready[w.From] = true
	}
}

// checks is the number of checks per StoppedTimeout. A worker stopped at that many in a row, without running between
// them, is lost. Checks are counted instead of time because Ctrl-Z also stops the launcher.
const checks = 4

// findStopped accuses and kills stopped workers, and reports whether there are any.
func (a *attempt) findStopped() (any bool) {
	for _, w := range a.workers.all {
		if w.gone.Load() {
			continue
		}
		text, ticks, stopped := rendezvous.Stopped(w.cmd.Process.Pid)
		ran := ticks != w.ticks
		w.ticks = ticks
		if !stopped || ran { // one that is stopped again and again is slow, not lost
			w.stoppedChecks = 0
			continue
		}
		if w.stoppedChecks++; w.stoppedChecks == checks {
			any = true
			a.accusations = append(a.accusations, w.accusation(text))
			w.signal(syscall.SIGKILL)
		}
	}
	return any
}

// accuse records running workers as root cause, and reports whether there are any.
func (a *attempt) accuse(whom func(*worker) bool, why string) (any bool) {
	for _, w := range a.workers.all {
		if !w.gone.Load() && whom(w) {
			any = true
			a.accusations = append(a.accusations, w.accusation(why))
		}
	}
	return any
}

// accusation is a report by the launcher itself.
func (w *worker) accusation(why string) message {
	host, _ := os.Hostname()
	return message{From: -1, RootCause: &w.rank, Why: fmt.Sprintf("%s (pid %d on %s) %s", rankNames(w.rank, w.ranks), w.cmd.Process.Pid, host, why)}
}

// onlyAccusedRun reports whether each worker that still runs has an accused rank.
func (a *attempt) onlyAccusedRun() bool {
	return !slices.ContainsFunc(a.workers.all, func(w *worker) bool {
		return !w.gone.Load() && !slices.ContainsFunc(a.accusations, func(m message) bool { return w.has(*m.RootCause) })
	})
}
