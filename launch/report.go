package launch

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// reportVar is the variable with the descriptor on which a worker reports to its launcher.
const reportVar = "TRIREME_WORDS_FD"

// message is a line from a worker to the launcher: it handles signals, has received one, or ends because of
// another rank. All workers share a pipe; writes up to PIPE_BUF (4096 bytes on Linux, at least 512) are atomic.
type message struct {
	From      int    `json:"from"` // the worker's rank
	Ready     bool   `json:"ready,omitempty"`
	Stopping  bool   `json:"stopping,omitempty"`
	RootCause *int   `json:"blames,omitempty"` // rank that caused the worker's end
	Why       string `json:"why,omitempty"`
}

// maxWhy is the limit of message.Why in bytes, so that a message stays below PIPE_BUF.
const maxWhy = 300

// reporter sends messages to the launcher; nil without one.
type reporter struct {
	f    *os.File
	from int
}

func newTalk(lookup func(string) (string, bool)) *reporter {
	f := inheritedFile(lookup, reportVar)
	rank, _ := lookup("RANK")
	from, err := strconv.Atoi(rank)
	if f == nil || err != nil {
		return nil
	}
	return &reporter{f, from}
}

// inheritedFile returns the file of the descriptor in a variable, close-on-exec; nil if there is none.
func inheritedFile(lookup func(string) (string, bool), name string) *os.File {
	v, _ := lookup(name)
	fd, err := strconv.Atoi(v)
	var st syscall.Stat_t
	if err != nil || fd < 3 || syscall.Fstat(fd, &st) != nil {
		return nil
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), name)
}

func (t *reporter) send(w message) error {
	if t == nil {
		return nil
	}
	w.From = t.from
	line, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	_, err = t.f.Write(append(line, '\n'))
	return err
}

func (t *reporter) close() {
	if t != nil {
		t.f.Close()
	}
}

// ReportRootCause reports to the launcher that this process ends because rank is lost, hung or stopped; why
// is one line. The launcher then names that rank instead of this one, and kills it. Do not report a rank
// that fails itself: its exit shows it. Without a launcher it does nothing.
func (s *Shutdown) ReportRootCause(rank int, why string) error {
	why, _, _ = strings.Cut(why, "\n")
	return s.launcher.send(message{RootCause: &rank, Why: strings.ToValidUTF8(why[:min(len(why), maxWhy)], "")})
}

// readMessages sends the workers' messages to the channel until all have ended or r's deadline, and closes it.
func readMessages(r *os.File, messages chan<- message) {
	defer close(messages)
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var w message
		if json.Unmarshal(lines.Bytes(), &w) == nil {
			messages <- w
		}
	}
}

// rootCause follows the reports to a rank that reports no other: a rank that waits for a waiting rank reports
// the wrong one. It returns nil without reports.
func rootCause(reports []message) *message {
	var last *message
	by := map[int]*message{}
	for i := range reports {
		w := &reports[i]
		if w.RootCause == nil {
			continue
		}
		if last == nil {
			last = w
		}
		if by[w.From] == nil && *w.RootCause != w.From {
			by[w.From] = w
		}
	}
	for range reports { // reports may form a cycle
		if last == nil || by[*last.RootCause] == nil {
			break
		}
		last = by[*last.RootCause]
	}
	return last
}
