package monitor

import (
	"math"
	"sort"
	"strconv"
	"time"
)

// object writes the members of a JSON object in order.
type object struct {
	b         []byte
	nonfinite bool
	any       bool
}

func (w *object) key(name string) {
	if w.any {
		w.b = append(w.b, ',')
	}
	w.any = true
	w.b = strconv.AppendQuote(w.b, name)
	w.b = append(w.b, ':')
}

func (w *object) raw(name, v string) {
	w.key(name)
	w.b = append(w.b, v...)
}

func (w *object) integer(name string, v int64) {
	w.key(name)
	w.b = strconv.AppendInt(w.b, v, 10)
}

func (w *object) float(name string, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		w.nonfinite = true
		w.raw(name, "null")
		return
	}
	w.key(name)
	w.b = appendFloat(w.b, v)
}

// appendFloat appends the shortest digits that parse back to v.
func appendFloat(b []byte, v float64) []byte {
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		return strconv.AppendFloat(b, v, 'e', -1, 64)
	}
	return strconv.AppendFloat(b, v, 'f', -1, 64)
}

func (w *object) bytes(name string, m map[string]int64) {
	w.key(name)
	w.b = append(w.b, '{')
	for i, k := range sortedKeys(m) {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = strconv.AppendQuote(w.b, k)
		w.b = append(w.b, ':')
		w.b = strconv.AppendInt(w.b, m[k], 10)
	}
	w.b = append(w.b, '}')
}

func (w *object) floats(name string, m map[string]float64) {
	if len(m) == 0 {
		return
	}
	inner := object{b: append([]byte{}, '{')}
	for _, k := range sortedKeys(m) {
		inner.float(k, m[k])
	}
	w.nonfinite = w.nonfinite || inner.nonfinite
	w.raw(name, string(append(inner.b, '}')))
}

func (w *object) run(id string) {
	if id != "" {
		w.raw("run", strconv.Quote(id))
	}
}

func (w *object) time(t time.Time) {
	if !t.IsZero() {
		w.raw("time", strconv.Quote(t.UTC().Format(time.RFC3339Nano)))
	}
}

func (w *object) end() []byte {
	if w.nonfinite {
		w.raw("nonfinite", "true")
	}
	return append(w.b, '}')
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
