package launch

import (
	"bytes"
	"errors"
	"io"
	"os"
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

// prefixed writes whole lines, with a prefix before each. With a prefix, a line may also end with a carriage
// return (a progress bar), which becomes a newline.
type prefixed struct {
	w      io.Writer
	prefix string
	line   []byte
}

func (p *prefixed) Write(b []byte) (int, error) {
	p.line = append(p.line, b...)
	var out []byte
	for {
		n, end := p.next()
		if end == 0 && len(p.line) >= tailSize {
			n, end = len(p.line), len(p.line)
		}
		if end == 0 {
			break
		}
		if line := p.line[:n]; p.prefix == "" {
			out = append(out, p.line[:end]...)
		} else if n > 0 || p.line[0] == '\n' { // progress bars start with a carriage return
			out = append(append(append(out, p.prefix...), line...), '\n')
		}
		p.line = p.line[end:]
	}
	p.line = append([]byte(nil), p.line...)
	if len(out) == 0 {
		return len(b), nil
	}
	_, err := p.w.Write(out)
	return len(b), err
}

// next returns the length of the first line without and with its end; end is 0 if it has none yet. A carriage
// return ends a line unless a newline follows or may follow.
func (p *prefixed) next() (n, end int) {
	for i, c := range p.line {
		switch {
		case c == '\n':
			return len(bytes.TrimSuffix(p.line[:i], []byte("\r"))), i + 1
		case c == '\r' && i+1 < len(p.line) && p.line[i+1] != '\n':
			return i, i + 1
		}
	}
	return 0, 0
}

func (p *prefixed) flush() {
	if len(p.line) > 0 {
		p.Write([]byte("\n"))
	}
}

// PrefixLines returns a writer that writes whole lines to w, each with a prefix. flush ends the last line.
func PrefixLines(w io.Writer, prefix string) (out io.Writer, flush func()) {
	p := &prefixed{w: w, prefix: prefix}
	return p, p.flush
}

// outlets are the destinations of a worker's stream.
type outlets struct {
	tail *tail
	logs []io.Writer
	show io.Writer // nil: not shown
}

// pump copies a stream until its end. It ignores write errors, so that the worker does not block on a full
// pipe.
func (o outlets) pump(r *os.File) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		o.tail.Write(buf[:n])
		for _, l := range o.logs {
			l.Write(buf[:n])
		}
		if o.show != nil {
			o.show.Write(buf[:n])
		}
		if err != nil {
			if p, ok := o.show.(*prefixed); ok {
				p.flush()
			}
			if !errors.Is(err, os.ErrClosed) {
				r.Close()
			}
			return
		}
	}
}
