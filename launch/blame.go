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

// blameVar holds the number of a descriptor on which a worker tells the launcher about ranks.
const blameVar = "TRIREME_BLAME_FD"

// word is one line that a worker writes to the launcher. Lines are short enough for the pipe,
// which all workers share, to keep each whole.
type word struct {
	From int    `json:"from"` // the rank that writes
	Rank int    `json:"rank"` // that it blames
	Why  string `json:"why"`
}

// maxWhy bounds the reason, in bytes: a line must not exceed PIPE_BUF, 512 by POSIX, 4096 on Linux.
const maxWhy = 300

// Blame tells the launcher that this process ends because rank hangs, is stopped or is gone, as
// why says in one line. The launcher then names that rank and not this one, and ends it without
// more patience. A rank that failed and said so itself needs no blame: its own exit tells. Without
// a launcher of ours Blame does nothing. lookup is os.LookupEnv.
func Blame(lookup func(string) (string, bool), rank int, why string) error {
	v, ok := lookup(blameVar)
	if !ok {
		return nil
	}
	fd, err := strconv.Atoi(v)
	if err != nil || fd < 3 {
		return fmt.Errorf("launch: %s=%q is not a descriptor", blameVar, v)
	}
	me, _ := lookup("RANK")
	from, err := strconv.Atoi(me)
	if err != nil {
		return fmt.Errorf("launch: RANK=%q is not a number", me)
	}
	why, _, _ = strings.Cut(why, "\n")
	line, err := json.Marshal(word{from, rank, strings.ToValidUTF8(why[:min(len(why), maxWhy)], "")})
	if err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	if _, err := syscall.Write(fd, append(line, '\n')); err != nil {
		return os.NewSyscallError("write to the launcher", err)
	}
	return nil
}

// listen hands on what workers say, until the last of them has ended or r's deadline.
func listen(r *os.File, heard chan<- word) {
	defer close(heard)
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var w word
		if json.Unmarshal(lines.Bytes(), &w) == nil {
			heard <- w
		}
	}
}

// culprit follows the blames to the rank that blames nobody: whoever waits for a rank that waits
// for another blames the wrong one. nil: nobody is blamed.
func culprit(words []word) *word {
	if len(words) == 0 {
		return nil
	}
	by := map[int]*word{}
	for i := range words {
		if w := &words[i]; by[w.From] == nil && w.Rank != w.From {
			by[w.From] = w
		}
	}
	last := &words[0]
	for range words { // at most: blames may go round
		next := by[last.Rank]
		if next == nil {
			break
		}
		last = next
	}
	return last
}
