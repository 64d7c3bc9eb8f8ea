package jinja

import (
	"errors"
	"fmt"
	"strings"
)

// A test is called with its value and arguments.
type test struct {
	args int
	call func(r *run, v any, args []any) (bool, error)
}

func isA[T any](_ *run, v any, _ []any) (bool, error) {
	_, ok := v.(T)
	return ok, nil
}

func relation(op string) *test {
	return &test{1, func(r *run, v any, args []any) (bool, error) { return r.related(op, v, args[0]) }}
}

// tests are the Jinja2 tests that published chat templates use.
var tests = map[string]*test{
	"boolean":   {0, isA[bool]},
	"defined":   {0, func(_ *run, v any, _ []any) (bool, error) { _, ok := v.(undefined); return !ok, nil }},
	"false":     {0, func(_ *run, v any, _ []any) (bool, error) { return v == false, nil }},
	"float":     {0, isA[float64]},
	"integer":   {0, isA[int64]},
	"iterable":  {0, func(_ *run, v any, _ []any) (bool, error) { _, ok := length(v); return ok, nil }},
	"mapping":   {0, isA[*dict]},
	"none":      {0, func(_ *run, v any, _ []any) (bool, error) { return v == nil, nil }},
	"number":    {0, func(_ *run, v any, _ []any) (bool, error) { _, ok := float(v); return ok, nil }},
	"sequence":  {0, func(_ *run, v any, _ []any) (bool, error) { _, ok := length(v); return ok, nil }},
	"string":    {0, isA[string]},
	"true":      {0, func(_ *run, v any, _ []any) (bool, error) { return v == true, nil }},
	"undefined": {0, isA[undefined]},

	"==": relation("=="), "eq": relation("=="), "equalto": relation("=="),
	"!=": relation("!="), "ne": relation("!="),
	"<": relation("<"), "lt": relation("<"), "lessthan": relation("<"),
	"<=": relation("<="), "le": relation("<="),
	">": relation(">"), "gt": relation(">"), "greaterthan": relation(">"),
	">=": relation(">="), "ge": relation(">="),
	"in": relation("in"),
}

func (r *run) test(name string, v any, args []any, named *dict) (bool, error) {
	t := tests[name]
	if t == nil {
		return false, fmt.Errorf("unsupported test %q", name)
	}
	if len(args) != t.args || len(named.keys) > 0 {
		return false, fmt.Errorf("test %s takes %d arguments, not %d", name, t.args, len(args)+len(named.keys))
	}
	return t.call(r, v, args)
}

// globals are the predefined names.
var globals = map[string]any{
	"raise_exception": function(func(r *run, args []any, _ *dict) (any, error) {
		said := make([]string, len(args))
		for i, a := range args {
			var err error
			if said[i], err = r.text(a); err != nil {
				return nil, err
			}
		}
		return nil, &RaisedError{strings.Join(said, " ")}
	}),
	"range": function(rangeOf),
	"namespace": function(func(_ *run, args []any, named *dict) (any, error) {
		d, err := dictOf(args, named)
		if err != nil {
			return nil, err
		}
		ns := &namespace{map[string]any{}}
		for _, k := range d.keys {
			s, err := stringArg(k)
			if err != nil {
				return nil, err
			}
			ns.vars[s], _ = d.get(k)
		}
		return ns, nil
	}),
	"dict": function(func(_ *run, args []any, named *dict) (any, error) { return dictOf(args, named) }),
}

func dictOf(args []any, named *dict) (*dict, error) {
	d := newDict()
	if len(args) > 1 {
		return nil, errors.New("dict takes one mapping")
	}
	if len(args) == 1 {
		from, ok := args[0].(*dict)
		if !ok {
			return nil, fmt.Errorf("dict of %s is not supported", describe(args[0]))
		}
		for _, k := range from.keys {
			v, _ := from.get(k)
			if err := d.set(k, v); err != nil {
				return nil, err
			}
		}
	}
	for _, k := range named.keys {
		if err := d.set(k, named.values[k]); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func rangeOf(r *run, args []any, named *dict) (any, error) {
	bounds := [3]int64{0, 0, 1}
	if len(args) < 1 || len(args) > 3 || len(named.keys) > 0 {
		return nil, errors.New("range takes one to three arguments")
	}
	for i, a := range args {
		n, ok := integer(a)
		if !ok {
			return nil, fmt.Errorf("range takes integers, not %s", describe(a))
		}
		if len(args) == 1 {
			i = 1
		}
		bounds[i] = n
	}
	from, to, step := bounds[0], bounds[1], bounds[2]
	if step == 0 {
		return nil, errors.New("the range step is 0")
	}
	var out []any
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		if len(out) == maxRange {
			return nil, fmt.Errorf("range has more than %d items", maxRange)
		}
		if err := r.spend(1); err != nil {
			return nil, err
		}
		out = append(out, i)
		if next := i + step; (next > i) != (step > 0) {
			break
		}
	}
	return out, nil
}
