package launch

import (
	"fmt"
	"os"
	"syscall"

	"trireme/rendezvous"
)

func (a *attempt) receive(w message) {
	switch {
	case w.RootCause != nil:
		a.accusations = append(a.accusations, w)
	case w.Stopping:
		a.acked[w.From] = true
	case w.Ready:
		a.ready[w.From] = true
	}
}

// checks is the number of checks per StoppedTimeout. A worker stopped at that many in a row is lost. Checks are
// counted instead of time because Ctrl-Z also stops the launcher.
const checks = 4

// findStopped accuses and kills stopped workers, and reports whether there are any.
func (a *attempt) findStopped() (any bool) {
	for _, w := range a.workers.all {
		if w.gone.Load() {
			continue
		}
		text, stopped := rendezvous.Stopped(w.cmd.Process.Pid)
		if !stopped {
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
	return message{From: -1, RootCause: &w.rank, Why: fmt.Sprintf("rank %d (pid %d on %s) %s", w.rank, w.cmd.Process.Pid, host, why)}
}

func (a *attempt) onlyAccusedRun() bool {
	accused := map[int]bool{}
	for _, w := range a.accusations {
		accused[*w.RootCause] = true
	}
	for _, w := range a.workers.all {
		if !w.gone.Load() && !accused[w.rank] {
			return false
		}
	}
	return true
}
