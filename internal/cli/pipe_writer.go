package cli

import (
	"errors"
	"io"
	"syscall"

	"golang.org/x/term"

	"trireme/monitor"
)

// pipe is output whose reader may go away, such as head or a killed tee, while the process that
// writes goes on: what it writes then is lost, and that is no error.
type pipeWriter struct{ io.Writer }

func (p pipeWriter) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		return len(b), nil
	}
	return n, err
}

// lasting is w as a process that holds writes to it. A terminal stays one.
func ignorePipeErrors(w io.Writer) io.Writer {
	if f, ok := monitor.FileOf(w); ok && term.IsTerminal(int(f.Fd())) {
		return w
	}
	return pipeWriter{w}
}
