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
	From      int    `json:"from"` // the rank that reports; the first of a worker, except for RootCause
	Ready     bool   `json:"ready,omitempty"`
	Stopping  bool   `json:"stopping,omitempty"`
	Failed    *int   `json:"failed,omitempty"` // rank of the worker that failed first
	RootCause *int   `json:"blames,omitempty"` // rank that caused the end of From
	Why       string `json:"why,omitempty"`
}

// maxWhy is the limit of message.Why in bytes, so that a message stays below Linux's PIPE_BUF. Where PIPE_BUF is 512,
// two long messages at the same time may mix, and are then ignored.
const maxWhy = 1000

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
	line, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	_, err = t.f.Write(append(line, '\n'))
	return err
}

// sendOwn sends a message of the process.
func (t *reporter) sendOwn(w message) error {
	if t != nil {
		w.From = t.from
	}
	return t.send(w)
}

func (t *reporter) close() {
	if t != nil {
		t.f.Close()
	}
}

// ReportRootCause reports to the launcher that rank from, of this process, ends because rank is lost, hung or
// stopped; why is one line. The launcher then names that rank instead, and kills it. Do not report a rank
// that fails itself: its exit shows it. Without a launcher it does nothing.
func (s *Shutdown) ReportRootCause(from, rank int, why string) error {
	why, _, _ = strings.Cut(why, "\n")
	return s.launcher.send(message{From: from, RootCause: &rank, Why: strings.ToValidUTF8(why[:min(len(why), maxWhy)], "")})
}

// ReportFailed reports to the launcher which rank of this process, which runs several, failed first and
// gives it its exit code. Without a launcher it does nothing.
func (s *Shutdown) ReportFailed(rank int) error { return s.launcher.sendOwn(message{Failed: &rank}) }

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
