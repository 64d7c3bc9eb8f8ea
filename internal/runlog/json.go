package runlog

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

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
