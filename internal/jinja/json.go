package jinja

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

type jsonStyle struct {
	comma, colon string
	indent       string // per level
	lines        bool
	ascii, sort  bool
}

// dump writes v as json.dumps does.
func (r *run) dump(b *strings.Builder, v any, s *jsonStyle, depth int) error {
	if depth > maxValueDepth {
		return errDeep
	}
	if err := r.spend(1); err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(map[bool]string{true: "true", false: "false"}[v])
	case int64:
		fmt.Fprint(b, v)
	case float64:
		b.WriteString(jsonFloat(v))
	case string:
		if err := r.spendText(b.Len()/16 + len(v)); err != nil {
			return err
		}
		jsonString(b, v, s.ascii)
	case []any, tuple:
		list, _ := sequence(v)
		return r.dumpItems(b, "[", len(list), "]", s, depth, func(i int) error {
			return r.dump(b, list[i], s, depth+1)
		})
	case *dict:
		keys := v.keys
		if s.sort {
			var err error
			if keys, err = r.sorted(keys, func(v any) (any, error) { return v, nil }, false); err != nil {
				return err
			}
		}
		return r.dumpItems(b, "{", len(keys), "}", s, depth, func(i int) error {
			if err := jsonKey(b, keys[i], s.ascii); err != nil {
				return err
			}
			b.WriteString(s.colon)
			one, _ := v.get(keys[i])
			return r.dump(b, one, s, depth+1)
		})
	default:
		return fmt.Errorf("%s is not JSON serializable", describe(v))
	}
	return nil
}

func (r *run) dumpItems(b *strings.Builder, open string, n int, close string, s *jsonStyle, depth int, one func(int) error) error {
	b.WriteString(open)
	line := func(depth int) error {
		if !s.lines {
			return nil
		}
		b.WriteByte('\n')
		for range depth {
			b.WriteString(s.indent)
		}
		return r.spendText(b.Len()/16 + depth*len(s.indent))
	}
	for i := range n {
		if i > 0 {
			b.WriteString(s.comma)
		}
		if err := line(depth + 1); err != nil {
			return err
		}
		if err := one(i); err != nil {
			return err
		}
	}
	if n > 0 {
		if err := line(depth); err != nil {
			return err
		}
	}
	b.WriteString(close)
	return nil
}

func jsonKey(b *strings.Builder, k any, ascii bool) error {
	switch k := k.(type) {
	case string:
		jsonString(b, k, ascii)
	case nil:
		b.WriteString(`"null"`)
	case bool:
		fmt.Fprintf(b, "%q", map[bool]string{true: "true", false: "false"}[k])
	case int64:
		fmt.Fprintf(b, `"%d"`, k)
	case float64:
		b.WriteString(`"` + jsonFloat(k) + `"`)
	default:
		return fmt.Errorf("%s is not a valid key", describe(k))
	}
	return nil
}

func jsonFloat(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	}
	return reprFloat(v)
}

func jsonString(b *strings.Builder, s string, ascii bool) {
	b.WriteByte('"')
	for _, c := range s {
		if i := slices.Index([]rune{'"', '\\', '\n', '\r', '\t', '\b', '\f'}, c); i >= 0 {
			b.WriteByte('\\')
			b.WriteByte(`"\nrtbf`[i])
			continue
		}
		switch {
		case c < 0x20 || ascii && c >= 0x7f && c < 0x10000 && c != 0x7f:
			fmt.Fprintf(b, `\u%04x`, c)
		case ascii && c >= 0x10000:
			c -= 0x10000
			fmt.Fprintf(b, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
}

func filterJSON(r *run, v any, p params) (any, error) {
	s := &jsonStyle{comma: ", ", colon: ": ", ascii: truth(p["ensure_ascii"]), sort: truth(p["sort_keys"])}
	switch indent := p["indent"].(type) {
	case nil:
	case string:
		s.indent, s.lines = indent, true
	default:
		n, ok := integer(indent)
		if !ok || n > 1000 {
			return nil, errors.New("indent must be an integer up to 1000 or a string")
		}
		s.indent, s.lines = strings.Repeat(" ", int(max(n, 0))), true
	}
	if s.lines {
		s.comma = ","
	}
	if sep := p["separators"]; sep != nil {
		list, ok := sequence(sep)
		if !ok || len(list) != 2 {
			return nil, errors.New("separators must be two strings")
		}
		var err, err2 error
		s.comma, err = stringArg(list[0])
		s.colon, err2 = stringArg(list[1])
		if err != nil || err2 != nil {
			return nil, errors.Join(err, err2)
		}
	}
	if u, ok := v.(undefined); ok {
		return nil, u.use()
	}
	var b strings.Builder
	err := r.dump(&b, v, s, 0)
	return b.String(), err
}
