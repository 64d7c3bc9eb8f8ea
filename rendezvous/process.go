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

// process identifies a rank's process, for messages and, on the same machine, for inspection.
type process struct {
	pid       int
	namespace string // boot id, and namespaces of pid, network and time; "": unknown
	host      string
}

func thisProcess() process {
	host, _ := os.Hostname() // may be empty
	return process{os.Getpid(), namespaces(), host}
}

// here reports whether the process is in the caller's pid, network and time namespaces: it can be inspected, reached
// without a network, and reads the same clock.
func (p process) here() bool { return p.namespace != "" && p.namespace == namespaces() }

// name formats the rank for messages: rank 1 (pid 4242 on node7).
func (p process) name(rank int) string {
	return fmt.Sprintf("rank %d (pid %d on %s)", rank, p.pid, p.host)
}

// A process is encoded in processSize bytes: pid u32, then namespace and host, nameSize bytes each, padded
// with zeros.
const (
	nameSize    = 126
	processSize = 4 + 2*nameSize
)

func (p process) encode() []byte {
	b := make([]byte, processSize)
	binary.BigEndian.PutUint32(b, uint32(p.pid))
	copy(b[4:][:nameSize], p.namespace)
	copy(b[4+nameSize:], p.host)
	return b
}

func decodeProcess(b []byte) (process, error) {
	bad := errors.New("rendezvous: malformed process")
	if len(b) != processSize {
		return process{}, bad
	}
	text := func(b []byte) string { return string(bytes.TrimRight(b, "\x00")) }
	p := process{int(binary.BigEndian.Uint32(b)), text(b[4:][:nameSize]), text(b[4+nameSize:])}
	// The names are printed: refuse control characters.
	strange := func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }
	if p.pid == 0 || p.pid > 1<<30 || strings.ContainsFunc(p.namespace+p.host, strange) {
		return process{}, bad
	}
	return p, nil
}

// Stopped reports whether a process of this machine is stopped by a signal or debugger. text says so, with
// the signal if known. ok is false if the process runs or cannot be inspected. ticks is its processor time so far
// (Linux; else 0): if it grows between two calls, the process ran between them.
func Stopped(pid int) (text string, ticks int64, ok bool) {
	c, signal, ticks := stateOf(pid)
	return stoppedBy(signal), ticks, c == stopped
}

func stoppedBy(signal int) string {
	if signal == 0 {
		return "is stopped"
	}
	return fmt.Sprintf("is stopped (signal %d)", signal)
}

type processState uint8

const (
	unknown processState = iota // cannot be inspected
	running                     // running or runnable
	stopped                     // by a signal or a debugger
)
