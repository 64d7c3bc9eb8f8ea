package launch

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
)

type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

type tail struct {
	mu  sync.Mutex
	buf []byte
	cut bool // the start of the output was dropped
}

const tailSize = 64 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailSize; over > tailSize/2 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
		t.cut = true
	}
	return len(p), nil
}

// lines returns the last n lines or, after a Go crash, the n lines from its reason on, which stacks follow.
func (t *tail) lines(n int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	ls := strings.Split(strings.TrimRight(string(t.buf), "\n\r \t"), "\n")
	if t.cut && len(ls) > 1 {
		ls = ls[1:]
	}
	for i, l := range ls {
		if l = strings.TrimRight(l, "\r"); strings.Contains(l, "\r") {
			l = l[strings.LastIndex(l, "\r")+1:] // the last state of a progress bar
		}
		ls[i] = l
	}
	if len(ls) == 1 && ls[0] == "" {
		return nil
	}
	from := max(0, len(ls)-n)
	for i, l := range ls {
		if crashBegins([]byte(l)) {
			from = i
			break
		}
	}
	return ls[from:min(len(ls), from+n)]
}

// crashBegins reports whether a line starts the Go runtime's crash output.
func crashBegins(line []byte) bool {
	for _, p := range []string{"panic: ", "fatal error: ", "runtime: ", "SIGQUIT: ", "SIGABRT: ", "SIGSEGV: ", "SIGBUS: ", "SIGFPE: ", "SIGILL: ", "SIGTRAP: ", "SIGSYS: "} {
		if bytes.HasPrefix(line, []byte(p)) {
			return true
		}
	}
	return false
}

// untilCrash drops the crash output of a Go program, which is kept in a file.
type untilCrash struct {
	w       io.Writer
	inLine  bool // the last byte was not a newline
	crashed bool
}

func (u *untilCrash) Write(b []byte) (int, error) {
	var out []byte
	for l := range bytes.Lines(b) {
		u.crashed = u.crashed || !u.inLine && crashBegins(l)
		u.inLine = l[len(l)-1] != '\n'
		if !u.crashed {
			out = append(out, l...)
		}
	}
	if len(out) > 0 {
		u.w.Write(out)
	}
	return len(b), nil
}

type prefixed struct {
	w      io.Writer
	prefix string
	line   []byte
}

func rankPrefix(rank int) string { return "[rank " + strconv.Itoa(rank) + "] " }

func (p *prefixed) Write(b []byte) (int, error) {
	p.line = append(p.line, b...)
	end := bytes.LastIndexByte(p.line, '\n') + 1
	if end == 0 && len(p.line) < tailSize {
		return len(b), nil
	}
	if end == 0 {
		end = len(p.line)
	}
	var out []byte
	for l := range bytes.Lines(p.line[:end]) {
		out = append(append(out, p.prefix...), l...)
	}
	p.line = append(p.line[:0], p.line[end:]...)
	_, err := p.w.Write(out)
	return len(b), err
}

func (p *prefixed) flush() {
	if len(p.line) > 0 {
		p.Write([]byte("\n"))
	}
}

type outlets struct {
	tail *tail
	log  io.Writer // nil: none
}

// pump copies a stream until its end. It ignores write errors, so that the worker does not block on a full
// pipe.
func (o outlets) pump(r *os.File, show io.Writer) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		o.tail.Write(buf[:n])
		if o.log != nil {
			o.log.Write(buf[:n])
		}
		if show != nil {
			show.Write(buf[:n])
		}
		if err != nil {
			if p, ok := show.(*prefixed); ok {
				p.flush()
			}
			if !errors.Is(err, os.ErrClosed) {
				r.Close()
			}
			return
		}
	}
}
