package monitor

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// CopyJSONL passes the JSON lines of r to s until r ends, and returns the first error. It skips
// invalid lines and continues after errors of s, so that the writer never blocks.
func CopyJSONL(r io.Reader, s Sink) error {
	var first error
	fail := func(err error) {
		if first == nil {
			first = err
		}
	}
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			switch rec, eval, err := Parse(line); {
			case err != nil:
				fail(fmt.Errorf("%w: %.60q", err, line))
			case rec != nil:
				fail(s.Record(*rec))
			default:
				fail(s.Evaluate(*eval))
			}
		}
		if errors.Is(err, io.EOF) {
			return first
		}
		if err != nil {
			fail(fmt.Errorf("monitor: %w", err))
			return first
		}
	}
}
