package rendezvous

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"
)

// process says where a rank runs, so that others can name it and, on the same machine, look at it.
type process struct {
	pid   int
	space string // the running kernel and the namespace that pid belongs to; "" is unknown
	host  string
}

func thisProcess() process {
	host, _ := os.Hostname() // "" is shown as such
	return process{os.Getpid(), space(), host}
}

// here says whether pid means the same process to the caller.
func (p process) here() bool { return p.space != "" && p.space == space() }

// name is for people: rank 1 (pid 4242 on node7).
func (p process) name(rank int) string {
	return fmt.Sprintf("rank %d (pid %d on %s)", rank, p.pid, p.host)
}

// A process travels as processSize bytes: pid u32, then space and host in nameSize bytes each, filled
// up with zeros.
const (
	nameSize    = 126
	processSize = 4 + 2*nameSize
)

func (p process) encode() []byte {
	b := make([]byte, processSize)
	binary.BigEndian.PutUint32(b, uint32(p.pid))
	copy(b[4:][:nameSize], p.space)
	copy(b[4+nameSize:], p.host)
	return b
}

func decodeProcess(b []byte) (process, error) {
	bad := errors.New("rendezvous: a malformed introduction")
	if len(b) != processSize {
		return process{}, bad
	}
	text := func(b []byte) string { return string(bytes.TrimRight(b, "\x00")) }
	p := process{int(binary.BigEndian.Uint32(b)), text(b[4:][:nameSize]), text(b[4+nameSize:])}
	// Both are printed or compared: what has other characters is no name.
	strange := func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }
	if p.pid == 0 || p.pid > 1<<30 || strings.ContainsFunc(p.space+p.host, strange) {
		return process{}, bad
	}
	return p, nil
}

// Stopped says whether a process of this machine is stopped by a signal or a debugger, and names the
// signal in words where the system tells it. false where the process cannot be looked at.
func Stopped(pid int) (words string, ok bool) {
	c, signal := look(pid)
	return stoppedBy(signal), c == stopped
}

func stoppedBy(signal int) string {
	if signal == 0 {
		return "is stopped"
	}
	return fmt.Sprintf("is stopped (signal %d)", signal)
}

// condition is what can be seen of a process.
type condition uint8

const (
	unseen  condition = iota // nothing
	runs                     // or could, if it had a processor
	stopped                  // by a signal or a debugger
)
