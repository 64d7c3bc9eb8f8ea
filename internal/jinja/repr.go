package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// text is str(v).
func (r *run) text(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, r.spendText(len(v))
	case undefined:
		return "", nil
	}
	var b strings.Builder
	err := r.repr(&b, v, 0)
	return b.String(), err
}

func (r *run) repr(b *strings.Builder, v any, depth int) error {
	if depth > maxValueDepth {
		return errDeep
	}
	if err := r.spend(1); err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case undefined:
		b.WriteString("Undefined")
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case float64:
		b.WriteString(reprFloat(v))
	case string:
		if err := r.spendText(b.Len()/16 + len(v)); err != nil {
			return err
		}
		reprString(b, v)
	case []any:
		return r.reprItems(b, "[", v, "]", depth)
	case tuple:
		if len(v) == 1 {
			return r.reprItems(b, "(", v, ",)", depth)
		}
		return r.reprItems(b, "(", v, ")", depth)
	case *dict:
		b.WriteByte('{')
		for i, k := range v.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			if err := r.repr(b, k, depth+1); err != nil {
				return err
			}
			b.WriteString(": ")
			value, _ := v.get(k)
			if err := r.repr(b, value, depth+1); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	default:
		return fmt.Errorf("%s is not printable", describe(v))
	}
	return nil
}

func (r *run) reprItems(b *strings.Builder, open string, v []any, close string, depth int) error {
	b.WriteString(open)
	for i := range v {
		if i > 0 {
			b.WriteString(", ")
		}
		if err := r.repr(b, v[i], depth+1); err != nil {
			return err
		}
	}
	b.WriteString(close)
	return nil
}

// reprFloat is the shortest decimal that parses to v, in Python's notation.
func reprFloat(v float64) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 0):
		return map[bool]string{true: "inf", false: "-inf"}[v > 0]
	}
	if a := math.Abs(v); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func reprString(b *strings.Builder, s string) {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b.WriteRune(quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			fmt.Fprintf(b, `\U%08x`, r)
		}
	}
	b.WriteRune(quote)
}
