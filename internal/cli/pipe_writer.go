package cli

import (
	"errors"
	"io"
	"syscall"

	"golang.org/x/term"

	"trireme/monitor"
)

// pipeWriter discards output after its reader, such as head, has exited.
type pipeWriter struct{ io.Writer }

func (p pipeWriter) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		return len(b), nil
	}
	return n, err
}

// ignorePipeErrors wraps w in a pipeWriter, unless it is a terminal.
func ignorePipeErrors(w io.Writer) io.Writer {
	if f, ok := monitor.UnderlyingFile(w); ok && term.IsTerminal(int(f.Fd())) {
		return w
	}
	return pipeWriter{w}
}
