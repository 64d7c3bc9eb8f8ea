package jinja

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"trireme/internal/ordered"
)

// A value is nil (None), undefined, bool, int64, float64, string, []any (a list), tuple, *dict,
// *namespace, *loop or function. Lists and dictionaries are immutable.
type (
	tuple     []any
	undefined struct{ what string } // the error when it is used
	namespace struct{ vars map[string]any }
	// function is called with positional and keyword arguments.
	function func(r *run, args []any, named *dict) (any, error)
)

// dict is an ordered dictionary. Keys are scalars, normalized by hash.
type dict struct {
	keys   []any
	values map[any]any
}

func newDict() *dict { return &dict{values: map[any]any{}} }

func (d *dict) set(key, value any) error {
	h, ok := hash(key)
	if !ok {
		return fmt.Errorf("%s is not a valid key", describe(key))
	}
	if _, ok := d.values[h]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[h] = value
	return nil
}

func (d *dict) get(key any) (any, bool) {
	h, ok := hash(key)
	if !ok {
		return nil, false
	}
	v, ok := d.values[h]
	return v, ok
}

// hash maps keys that are equal in Python to one value.
func hash(v any) (any, bool) {
	switch v := v.(type) {
	case bool:
		return toInt(v), true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), true
		}
		return v, true
	case nil, int64, string:
		return v, true
	}
	return nil, false
}

const maxValueDepth = 200

var errDeep = fmt.Errorf("a value is nested more than %d levels deep", maxValueDepth)

// fromGo copies an argument of Render.
func fromGo(v any, depth int) (any, error) {
	if depth > maxValueDepth {
		return nil, errDeep
	}
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		return v, nil
	case int:
		return int64(v), nil
	case []any:
		out := make([]any, len(v))
		for i := range v {
			var err error
			if out[i], err = fromGo(v[i], depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []string:
		out := make([]any, len(v))
		for i := range v {
			out[i] = v[i]
		}
		return out, nil
	case ordered.Map:
		d := newDict()
		for _, m := range v {
			one, err := fromGo(m.Value, depth+1)
			if err == nil {
				err = d.set(m.Key, one)
			}
			if err != nil {
				return nil, err
			}
		}
		return d, nil
	case func(string) string:
		return function(func(_ *run, args []any, _ *dict) (any, error) {
			if len(args) == 1 {
				if s, ok := args[0].(string); ok {
					return v(s), nil
				}
			}
			return nil, errors.New("the function takes one string")
		}), nil
	}
	return nil, fmt.Errorf("unsupported Go type %T", v)
}

// describe names a value's type for messages.
func describe(v any) string {
	switch v.(type) {
	case nil:
		return "None"
	case bool:
		return "a boolean"
	case int64:
		return "an integer"
	case float64:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "a list"
	case tuple:
		return "a tuple"
	case *dict:
		return "a mapping"
	case undefined:
		return "an undefined value"
	case function:
		return "a function"
	}
	return "an object"
}

func truth(v any) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case tuple:
		return len(v) > 0
	case *dict:
		return len(v.keys) > 0
	}
	return true
}

func toInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// integer returns an integer; True and False are 1 and 0.
func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case bool:
		return toInt(v), true
	case int64:
		return v, true
	}
	return 0, false
}

func float(v any) (float64, bool) {
	if f, ok := v.(float64); ok {
		return f, true
	}
	i, ok := integer(v)
	return float64(i), ok
}

// sequence returns the items of a list or tuple.
func sequence(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case tuple:
		return v, true
	}
	return nil, false
}

func items(v any) ([]any, error) {
	switch v := v.(type) {
	case undefined:
		return nil, nil
	case []any:
		return v, nil
	case tuple:
		return v, nil
	case *dict:
		return v.keys, nil
	case string:
		out := make([]any, 0, len(v))
		for _, r := range v {
			out = append(out, string(r))
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s is not iterable", describe(v))
}

// length is len(v).
func length(v any) (int, bool) {
	switch v := v.(type) {
	case undefined:
		return 0, true
	case string:
		return utf8.RuneCountInString(v), true
	case []any:
		return len(v), true
	case tuple:
		return len(v), true
	case *dict:
		return len(v.keys), true
	}
	return 0, false
}

func (r *run) equal(a, b any, depth int) (bool, error) {
	if depth > maxValueDepth {
		return false, errDeep
	}
	if err := r.spend(1); err != nil {
		return false, err
	}
	if x, ok := float(a); ok {
		if i, ok := integer(a); ok {
			if j, ok := integer(b); ok {
				return i == j, nil
			}
		}
		y, ok := float(b)
		return ok && x == y, nil
	}
	switch a := a.(type) {
	case nil:
		return b == nil, nil
	case undefined:
		_, ok := b.(undefined)
		return ok, nil
	case string:
		s, ok := b.(string)
		return ok && a == s, r.spend(len(a) / 64)
	case []any:
		l, ok := b.([]any)
		return r.equalItems(a, l, ok, depth)
	case tuple:
		l, ok := b.(tuple)
		return r.equalItems(a, l, ok, depth)
	case *dict:
		d, ok := b.(*dict)
		if !ok || len(a.keys) != len(d.keys) {
			return false, nil
		}
		for k, x := range a.values {
			y, ok := d.values[k]
			if !ok {
				return false, nil
			}
			if same, err := r.equal(x, y, depth+1); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	case *namespace:
		n, ok := b.(*namespace)
		return ok && a == n, nil
	case *loop:
		l, ok := b.(*loop)
		return ok && a == l, nil
	}
	return false, nil
}

func (r *run) equalItems(a, b []any, ok bool, depth int) (bool, error) {
	if !ok || len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		if same, err := r.equal(a[i], b[i], depth+1); !same || err != nil {
			return false, err
		}
	}
	return true, nil
}

// compare orders two numbers, strings, lists or tuples.
func (r *run) compare(a, b any, depth int) (int, error) {
	if depth > maxValueDepth {
		return 0, errDeep
	}
	if err := r.spend(1); err != nil {
		return 0, err
	}
	if x, ok := float(a); ok {
		if y, ok := float(b); ok {
			i, whole := integer(a)
			if j, ok := integer(b); ok && whole {
				return sign(i < j, i > j), nil
			}
			return sign(x < y, x > y), nil
		}
	}
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			return strings.Compare(x, y), r.spend(len(x) / 64)
		}
	}
	x, okX := sequence(a)
	y, okY := sequence(b)
	if okX && okY && describe(a) == describe(b) {
		for i := range min(len(x), len(y)) {
			if same, err := r.equal(x[i], y[i], depth+1); err != nil {
				return 0, err
			} else if !same {
				return r.compare(x[i], y[i], depth+1)
			}
		}
		return sign(len(x) < len(y), len(x) > len(y)), nil
	}
	return 0, fmt.Errorf("%s is not comparable with %s", describe(a), describe(b))
}

func sign(less, more bool) int {
	switch {
	case less:
		return -1
	case more:
		return 1
	}
	return 0
}
