package conf

import (
	"bufio"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Print writes a tree as YAML that Load reads back to the same tree: keys in order of declaration, maps
// sorted, lists on one line. With origins, a comment has the origin of each value.
func Print[T any](w io.Writer, tree T, origins Origins) error {
	b := bufio.NewWriter(w)
	p := &printer{w: b, origins: origins}
	p.writeNode(reflect.ValueOf(&tree).Elem(), "", 0)
	if err := b.Flush(); err != nil {
		return fmt.Errorf("conf: %w", err)
	}
	return nil
}

// Get returns a value of a tree as printed, or "" if the path does not exist.
func Get[T any](tree T, path string) string {
	v := reflect.ValueOf(&tree).Elem()
	for _, key := range strings.Split(path, ".") {
		found := reflect.Value{}
		for _, c := range children(deref(v)) {
			if c.name == key {
				found = c.value
			}
		}
		if v = found; !v.IsValid() {
			return ""
		}
	}
	return flow(v)
}

type printer struct {
	w       *bufio.Writer
	origins Origins
}

type keyed struct {
	name  string
	value reflect.Value
}

// children lists the keys of a value that prints as a block, or nil.
func children(v reflect.Value) []keyed {
	var out []keyed
	switch {
	case v.Kind() == reflect.Struct && isNode(v.Type()):
		for _, f := range fields(v.Type()) {
			out = append(out, keyed{f.name, v.FieldByIndex(f.index)})
		}
	case v.Kind() == reflect.Map:
		elems := mapKeys(v)
		for _, k := range sortedKeys(elems) {
			out = append(out, keyed{k, elems[k]})
		}
	}
	return out
}

func (p *printer) writeNode(v reflect.Value, path string, depth int) {
	for _, c := range children(v) {
		value, at := deref(c.value), join(path, c.name)
		p.w.WriteString(strings.Repeat("  ", depth))
		p.w.WriteString(quote(c.name) + ":")
		if below := children(value); below != nil && !printsAsText(value) {
			p.w.WriteString("\n")
			p.writeNode(value, at, depth+1)
			continue
		}
		p.w.WriteString(" " + flow(value))
		if o := p.origins[at]; o != "" {
			p.w.WriteString("  # " + clipStart(o))
		}
		p.w.WriteString("\n")
	}
}

func deref(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	return v
}

func printsAsText(v reflect.Value) bool {
	_, ok := asMarshaler(v)
	return ok && isText(v.Type())
}

func asMarshaler(v reflect.Value) (encoding.TextMarshaler, bool) {
	if v.CanAddr() {
		m, ok := v.Addr().Interface().(encoding.TextMarshaler)
		return m, ok
	}
	m, ok := v.Interface().(encoding.TextMarshaler)
	return m, ok
}

// isPlain reports whether a text is a number, true or false.
func isPlain(s string) bool {
	_, err := parseInt(s, 64)
	return err == nil || s == "true" || s == "false"
}

// flow formats a value on one line.
func flow(v reflect.Value) string {
	v = deref(v)
	if !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil() {
		return "null"
	}
	if v.Kind() == reflect.Interface {
		return flow(v.Elem())
	}
	if m, ok := asMarshaler(v); ok {
		// On an error print the underlying kind.
		if text, err := m.MarshalText(); err == nil {
			if v.CanInt() && isPlain(string(text)) { // a number for most values
				return string(text)
			}
			return quote(string(text))
		}
	} else if s, ok := v.Interface().(fmt.Stringer); ok && isText(v.Type()) {
		return quote(s.String())
	}
	switch {
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10)
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10)
	case v.CanFloat():
		return formatFloat(v.Float(), v.Type().Bits())
	}
	switch v.Kind() {
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.String:
		return quote(v.String())
	case reflect.Slice, reflect.Array:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = flow(v.Index(i))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case reflect.Map, reflect.Struct:
		var items []string
		for _, c := range children(v) {
			items = append(items, quote(c.name)+": "+flow(c.value))
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	panic(fmt.Sprintf("conf: values of type %s cannot be printed", v.Type()))
}

// formatFloat formats the shortest text that reads back to the same float, with a decimal point.
func formatFloat(f float64, bits int) string {
	switch {
	case math.IsInf(f, 1):
		return ".inf"
	case math.IsInf(f, -1):
		return "-.inf"
	case math.IsNaN(f):
		return ".nan"
	}
	s := strconv.FormatFloat(f, 'g', -1, bits)
	mantissa, exponent, hasExponent := strings.Cut(s, "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	if hasExponent {
		return mantissa + "e" + exponent
	}
	return mantissa
}

// quote quotes a text if YAML could read it as something else.
func quote(s string) string {
	plain := s != "" && s[0] != '-' && s[0] != '.'
	for _, r := range s {
		plain = plain && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./", r))
	}
	if plain && s[0] > '9' && !slices.Contains([]string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(s)) {
		return s
	}
	if strings.HasPrefix(s, "/") && plain {
		return s
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // cannot fail
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`)
}

func sortedKeys(m map[string]reflect.Value) []string { return slices.Sorted(maps.Keys(m)) }
