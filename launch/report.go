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

// reportVar holds the number of a descriptor on which a worker talks to its launcher.
const reportVar = "TRIREME_WORDS_FD"

// message is one line that a worker writes to the launcher: it listens to signals, it has heard one and
// is stopping, or whom it blames for its end. All workers share a pipe, which keeps lines of less
// than 4096 bytes whole (512 where the system has no more).
type message struct {
	From     int    `json:"from"` // the rank that writes
	Ready    bool   `json:"ready,omitempty"`
	Stopping bool   `json:"stopping,omitempty"`
	Blames   *int   `json:"blames,omitempty"` // a rank
	Why      string `json:"why,omitempty"`
}

// maxWhy bounds a reason, in bytes.
const maxWhy = 300

// reporter is a worker's way to its launcher; nil where it has none of ours.
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

// inheritedFile is the descriptor whose number a variable holds, nil if there is none. Children of this
// process do not get it.
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

// send writes a word. A launcher that is gone needs none.
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

// ReportRootCause tells the launcher that this process ends because rank hangs, is stopped or is gone, as
// why says in one line. The launcher then names that rank and not this one, and ends it without
// more patience. A rank that failed and said so itself needs no blame: its own exit tells. Without
// a launcher of ours ReportRootCause does nothing.
func (s *Shutdown) ReportRootCause(rank int, why string) error {
	why, _, _ = strings.Cut(why, "\n")
	return s.launcher.send(message{Blames: &rank, Why: strings.ToValidUTF8(why[:min(len(why), maxWhy)], "")})
}

// readMessages hands on what workers say, until the last of them has ended or r's deadline.
func readMessages(r *os.File, heard chan<- message) {
	defer close(heard)
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var w message
		if json.Unmarshal(lines.Bytes(), &w) == nil {
			heard <- w
		}
	}
}

// rootCause follows the blames to the rank that blames nobody: whoever waits for a rank that waits
// for another blames the wrong one. nil: nobody is blamed.
func rootCause(words []message) *message {
	var last *message
	by := map[int]*message{}
	for i := range words {
		w := &words[i]
		if w.Blames == nil {
			continue
		}
		if last == nil {
			last = w
		}
		if by[w.From] == nil && *w.Blames != w.From {
			by[w.From] = w
		}
	}
	for range words { // at most: blames may go round
		if last == nil || by[*last.Blames] == nil {
			break
		}
		last = by[*last.Blames]
	}
	return last
}
