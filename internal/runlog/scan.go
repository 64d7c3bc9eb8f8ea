package runlog

import (
	"errors"
	"math"
)

// Limits of a line: deeper values and longer names are no metrics.
const (
	maxDepth   = 16
	maxName    = 256
	maxColumns = 4096
)

var errLine = errors.New("not a record")

type cell struct {
	id int
	v  float64
}

// scanner reads the numbers of one line. It accepts the objects that encoding/json does, up to maxDepth.
type scanner struct {
	names *names
	b     []byte
	i     int
	path  []byte
	cells []cell // of the line, in its order
	evals map[int]int
}

// missing is the value of a row without the metric. A value that is not finite is another NaN.
var missing = math.Float64frombits(missingBits)

const missingBits = 0x7ff8_0000_7472_6972

func isMissing(v float64) bool { return math.Float64bits(v) == missingBits }

// scan reads a line into s.cells. A line without a step is an error.
func (s *scanner) scan(line []byte) (step int64, err error) {
	s.b, s.i, s.path, s.cells = line, 0, s.path[:0], s.cells[:0]
	s.space()
	if s.i >= len(s.b) || s.b[s.i] != '{' {
		return 0, errLine
	}
	if !s.value(0) {
		return 0, errLine
	}
	if s.space(); s.i != len(s.b) {
		return 0, errLine
	}
	at, isEval, nonfinite := missing, false, false
	for _, c := range s.cells {
		switch c.id {
		case colStep:
			at = c.v
		case colEvalLoss:
			isEval = true
		case colNonfinite:
			nonfinite = c.v == 1
		}
	}
	if !(at >= 0 && at < 1<<53) || at != math.Trunc(at) {
		return 0, errLine
	}
	kept := s.cells[:0]
	for _, c := range s.cells {
		switch {
		case c.v != c.v && !isMissing(c.v) && !nonfinite:
			continue // null: unknown
		case c.id == colOffset || c.id == colTotal || c.id == colNonfinite:
			continue
		case isEval:
			if c.id = s.ofEvaluation(c.id); c.id < 0 {
				continue
			}
		}
		kept = append(kept, c)
	}
	s.cells = kept
	return int64(at), nil
}

// ofEvaluation returns the column of an evaluation's number, whose means have names of their own; -1: none.
func (s *scanner) ofEvaluation(id int) int {
	if to, ok := s.evals[id]; ok {
		return to
	}
	to := id
	switch name := s.names.list[id]; {
	case id == colWorld:
		to = -1
	case len(name) > 6 && name[:6] == "means.":
		to = s.names.id([]byte("eval_" + name))
	}
	s.evals[id] = to
	return to
}

// Values returns the metrics of a line of metrics.jsonl. NaN is not finite.
func Values(line []byte) (map[string]float64, error) {
	n := newNames()
	s := scanner{names: n, evals: map[int]int{}}
	if _, err := s.scan(line); err != nil {
		return nil, err
	}
	out := make(map[string]float64, len(s.cells))
	for _, c := range s.cells {
		out[n.list[c.id]] = c.v
	}
	return out, nil
}
