package launch

import (
	"fmt"
	"os"
	"syscall"

	"trireme/rendezvous"
)

// receive notes what a worker says.
func (a *attempt) receive(w message) {
	switch {
	case w.Blames != nil:
		a.accusations = append(a.accusations, w)
	case w.Stopping:
		a.acked[w.From] = true
	case w.Ready:
		a.ready[w.From] = true
	}
}

// looks is the number of looks at the workers in Silence; one that is stopped at that many in a row is
// lost. They are counted, and not time, because Ctrl-Z stops the launcher too.
const looks = 4

// findStopped blames and kills workers that are stopped, and reports whether there are any.
func (a *attempt) findStopped() (any bool) {
	for _, w := range a.workers.all {
		if w.gone.Load() {
			continue
		}
		words, stopped := rendezvous.Stopped(w.cmd.Process.Pid)
		if !stopped {
			w.still = 0
			continue
		}
		if w.still++; w.still == looks {
			any = true
			host, _ := os.Hostname()
			a.accusations = append(a.accusations, message{From: -1, Blames: &w.rank, Why: fmt.Sprintf("rank %d (pid %d on %s) %s", w.rank, w.cmd.Process.Pid, host, words)})
			w.signal(syscall.SIGKILL)
		}
	}
	return any
}

// blame notes that the launcher itself blames those that still run, and says whether there are any.
func (a *attempt) blame(whom func(*worker) bool, why string) (any bool) {
	for _, w := range a.workers.all {
		if !w.gone.Load() && whom(w) {
			any = true
			a.accusations = append(a.accusations, message{From: -1, Blames: &w.rank, Why: fmt.Sprintf("rank %d %s", w.rank, why)})
		}
	}
	return any
}

// onlyBlamed says that those that are still running are ranks that others blame.
func (a *attempt) onlyBlamed() bool {
	blamed := map[int]bool{}
	for _, w := range a.accusations {
		blamed[*w.Blames] = true
	}
	for _, w := range a.workers.all {
		if !w.gone.Load() && !blamed[w.rank] {
			return false
		}
	}
	return true
}
