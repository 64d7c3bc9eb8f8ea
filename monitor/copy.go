package monitor

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// CopyJSONL hands the records that r carries as lines of JSON to s until r ends, and returns
// the first error. A line that cannot be read is left out, and a failing sink does not end
// it: the writer must not block.
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
