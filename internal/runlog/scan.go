package runlog

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"
)

// Limits of a line: deeper values and longer names are no metrics.
const (
	maxDepth   = 16
	maxName    = 256
	maxColumns = 4096
)

var errLine = errors.New("not a record")

// names numbers the metrics of a run.
type names struct {
	ids  map[string]int
	list []string
}

// id returns the number of a name, a new one if needed; -1 if there are too many.
func (n *names) id(name []byte) int {
	if id, ok := n.ids[string(name)]; ok {
		return id
	}
	if len(n.list) >= maxColumns {
		return -1
	}
	id := len(n.list)
	n.ids[string(name)] = id
	n.list = append(n.list, string(name))
	return id
}

// Columns of every row.
const (
	colStep = iota
	colTime
	colOffset
	colTotal // tokens_total
	colTokens
	colLoss
	colEvalLoss
	colNonfinite
	colWorld
)

var fixed = []string{"step", "time", "@offset", "tokens_total", "tokens", "loss", "eval_loss", "nonfinite", "world_size"}

func newNames() *names {
	n := &names{ids: map[string]int{}}
	for _, name := range fixed {
		n.id([]byte(name))
	}
	return n
}

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

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) add(v float64) {
	if len(s.path) == 0 || len(s.path) > maxName {
		return
	}
	if id := s.names.id(s.path); id >= 0 {
		s.cells = append(s.cells, cell{id, v})
	}
}

// value reads a value whose name is s.path.
func (s *scanner) value(depth int) bool {
	if s.i >= len(s.b) || depth > maxDepth {
		return false
	}
	switch c := s.b[s.i]; {
	case c == '{':
		return s.object(depth)
	case c == '[':
		return s.array(depth)
	case c == '"':
		text, ok := s.text()
		if ok && string(s.path) == "time" {
			if t, err := time.Parse(time.RFC3339Nano, string(text)); err == nil {
				s.add(float64(t.Unix()) + float64(t.Nanosecond())/1e9)
			}
		}
		return ok
	case c == 't':
		return s.word("true", 1)
	case c == 'f':
		return s.word("false", 0)
	case c == 'n':
		return s.word("null", math.NaN())
	}
	return s.number()
}

func (s *scanner) word(w string, v float64) bool {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	s.add(v)
	return true
}

// below appends a name to the path and returns the length to restore.
func (s *scanner) below(name []byte) int {
	n := len(s.path)
	if n > maxName { // too long already
		return n
	}
	if n > 0 {
		s.path = append(s.path, '.')
	}
	s.path = append(s.path, name...)
	return n
}

func (s *scanner) object(depth int) bool {
	s.i++
	if s.space(); s.i < len(s.b) && s.b[s.i] == '}' {
		s.i++
		return true
	}
	for {
		s.space()
		name, ok := s.text()
		if !ok {
			return false
		}
		if s.space(); s.i >= len(s.b) || s.b[s.i] != ':' {
			return false
		}
		s.i++
		s.space()
		n := s.below(name)
		ok = s.value(depth + 1)
		s.path = s.path[:n]
		if !ok {
			return false
		}
		if more, ok := s.next('}'); !ok || !more {
			return ok
		}
	}
}

func (s *scanner) array(depth int) bool {
	s.i++
	if s.space(); s.i < len(s.b) && s.b[s.i] == ']' {
		s.i++
		return true
	}
	var digits [20]byte
	for k := 0; ; k++ {
		s.space()
		n := s.below(strconv.AppendInt(digits[:0], int64(k), 10))
		ok := s.value(depth + 1)
		s.path = s.path[:n]
		if !ok {
			return false
		}
		if more, ok := s.next(']'); !ok || !more {
			return ok
		}
	}
}

// next reads a comma or the end of an object or array.
func (s *scanner) next(end byte) (more, ok bool) {
	s.space()
	if s.i >= len(s.b) {
		return false, false
	}
	c := s.b[s.i]
	s.i++
	return c == ',', c == ',' || c == end
}

// text reads a string. Its bytes are valid until the next call.
func (s *scanner) text() ([]byte, bool) {
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		return nil, false
	}
	from := s.i
	for s.i++; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.b[from+1 : s.i-1], true
		case c == '\\' || c >= 0x80:
			return s.quoted(from)
		case c < ' ':
			return nil, false
		}
	}
	return nil, false
}

// quoted reads a string with escapes or letters beyond ASCII.
func (s *scanner) quoted(from int) ([]byte, bool) {
	for s.i = from + 1; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case '\\':
			s.i++
		case '"':
			s.i++
			var text string
			err := json.Unmarshal(s.b[from:s.i], &text)
			return []byte(text), err == nil
		}
	}
	return nil, false
}

// number reads a number by the grammar of JSON.
func (s *scanner) number() bool {
	from := s.i
	digits := func() bool {
		n := s.i
		for s.i < len(s.b) && s.b[s.i]-'0' <= 9 {
			s.i++
		}
		return s.i > n
	}
	if s.i < len(s.b) && s.b[s.i] == '-' {
		s.i++
	}
	zero := s.i < len(s.b) && s.b[s.i] == '0'
	first := s.i
	if !digits() || zero && s.i > first+1 {
		return false
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if !digits() {
			return false
		}
	}
	if s.i < len(s.b) && (s.b[s.i] == 'e' || s.b[s.i] == 'E') {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if !digits() {
			return false
		}
	}
	v, err := strconv.ParseFloat(string(s.b[from:s.i]), 64)
	if err != nil { // beyond the range: infinite
		v = math.NaN()
	}
	s.add(v)
	return true
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
