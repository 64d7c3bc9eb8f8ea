package jinja

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

func (e literal) eval(*run) (any, error) { return e.value, nil }

func (e variable) eval(r *run) (any, error) {
	if v, ok := r.scope.get(e.name); ok {
		return v, nil
	}
	return undefined{fmt.Sprintf("%q is undefined", e.name)}, nil
}

func (r *run) values(list []expr) ([]any, error) {
	out := make([]any, len(list))
	for i, e := range list {
		var err error
		if out[i], err = r.value(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (e *listExpr) eval(r *run) (any, error) { return r.values(e.items) }

func (e *tupleExpr) eval(r *run) (any, error) {
	v, err := r.values(e.items)
	return tuple(v), err
}

func (e *dictExpr) eval(r *run) (any, error) {
	d := newDict()
	for i := range e.keys {
		k, err := r.value(e.keys[i])
		if err != nil {
			return nil, err
		}
		v, err := r.value(e.values[i])
		if err != nil {
			return nil, err
		}
		if err := d.set(k, v); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// use returns the error for using an undefined value.
func (u undefined) use() error { return errors.New(u.what) }

func (d *dict) add(name string, value any) error {
	if _, ok := d.values[name]; ok {
		return fmt.Errorf("duplicate argument %s", name)
	}
	return d.set(name, value)
}

func (a *arguments) given(r *run) (args []any, named *dict, err error) {
	named = newDict()
	if args, err = r.values(a.args); err != nil {
		return nil, nil, err
	}
	for _, e := range a.spread {
		v, err := r.value(e)
		if err != nil {
			return nil, nil, err
		}
		more, err := items(v)
		if err != nil {
			return nil, nil, err
		}
		if err := r.spendItems(len(more)); err != nil {
			return nil, nil, err
		}
		args = append(args, more...)
	}
	for i, e := range a.named {
		v, err := r.value(e)
		if err == nil {
			err = named.add(a.names[i], v)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return args, named, nil
}

func (e *call) eval(r *run) (any, error) { return e.with(r, "", nil) }

// with calls, with one more keyword argument unless extra is "".
func (e *call) with(r *run, extra string, value any) (any, error) {
	of, err := r.value(e.of)
	if err != nil {
		return nil, err
	}
	args, named, err := e.args.given(r)
	if err != nil {
		return nil, at(e.line, err)
	}
	if extra != "" {
		if err := named.add(extra, value); err != nil {
			return nil, at(e.line, err)
		}
	}
	v, err := r.callValue(of, args, named)
	return v, at(e.line, err)
}

func (r *run) callValue(of any, args []any, named *dict) (any, error) {
	switch of := of.(type) {
	case function:
		return of(r, args, named)
	case undefined:
		return nil, of.use()
	}
	return nil, fmt.Errorf("%s is not callable", describe(of))
}

func (e *filterExpr) eval(r *run) (any, error) {
	v, err := r.value(e.of)
	if err != nil {
		return nil, err
	}
	args, named, err := e.args.given(r)
	if err != nil {
		return nil, at(e.line, err)
	}
	v, err = r.filter(e.name, v, args, named)
	return v, at(e.line, err)
}

func (e *testExpr) eval(r *run) (any, error) {
	v, err := r.value(e.of)
	if err != nil {
		return nil, err
	}
	args, named, err := e.args.given(r)
	if err != nil {
		return nil, at(e.line, err)
	}
	ok, err := r.test(e.name, v, args, named)
	return ok != e.not, at(e.line, err)
}

func (e *condition) eval(r *run) (any, error) {
	ok, err := r.value(e.test)
	switch {
	case err != nil:
		return nil, err
	case truth(ok):
		return r.value(e.then)
	case e.other != nil:
		return r.value(e.other)
	}
	return undefined{"the condition is false and has no else"}, nil
}

func (e *unary) eval(r *run) (any, error) {
	v, err := r.value(e.of)
	if err != nil {
		return nil, err
	}
	if e.op == "not" {
		return !truth(v), nil
	}
	if u, ok := v.(undefined); ok {
		return nil, at(e.line, u.use())
	}
	if i, ok := integer(v); ok {
		if e.op == "-" {
			if i == math.MinInt64 {
				return nil, at(e.line, errLarge)
			}
			i = -i
		}
		return i, nil
	}
	if f, ok := v.(float64); ok {
		if e.op == "-" {
			f = -f
		}
		return f, nil
	}
	return nil, at(e.line, fmt.Errorf("bad operand for unary %s: %s", e.op, describe(v)))
}

func (e *comparison) eval(r *run) (any, error) {
	a, err := r.value(e.first)
	if err != nil {
		return nil, err
	}
	for i, op := range e.ops {
		b, err := r.value(e.rest[i])
		if err != nil {
			return nil, err
		}
		ok, err := r.related(op, a, b)
		if err != nil {
			return nil, at(e.line, err)
		}
		if !ok {
			return false, nil
		}
		a = b
	}
	return true, nil
}

// related evaluates a op b for a comparison.
func (r *run) related(op string, a, b any) (bool, error) {
	switch op {
	case "==", "!=":
		same, err := r.equal(a, b, 0)
		return same == (op == "=="), err
	case "in", "not in":
		ok, err := r.contains(b, a)
		return ok == (op == "in"), err
	}
	for _, v := range []any{a, b} {
		if u, ok := v.(undefined); ok {
			return false, u.use()
		}
	}
	c, err := r.compare(a, b, 0)
	switch op {
	case "<":
		return c < 0, err
	case "<=":
		return c <= 0, err
	case ">":
		return c > 0, err
	}
	return c >= 0, err
}

// contains evaluates "v in of".
func (r *run) contains(of, v any) (bool, error) {
	switch of := of.(type) {
	case undefined:
		return false, nil
	case string:
		s, ok := v.(string)
		if !ok {
			if u, is := v.(undefined); is {
				return false, u.use()
			}
			return false, fmt.Errorf("'in' a string needs a string, not %s", describe(v))
		}
		return strings.Contains(of, s), r.spendText(len(of))
	case *dict:
		_, ok := of.get(v)
		return ok, nil
	}
	list, ok := sequence(of)
	if !ok {
		return false, fmt.Errorf("%s is not a container", describe(of))
	}
	for _, one := range list {
		if same, err := r.equal(one, v, 0); same || err != nil {
			return same, err
		}
	}
	return false, nil
}

func (e *binary) eval(r *run) (any, error) {
	a, err := r.value(e.a)
	if err != nil {
		return nil, err
	}
	switch {
	case e.op == "and" && !truth(a), e.op == "or" && truth(a):
		return a, nil
	}
	b, err := r.value(e.b)
	if err != nil || e.op == "and" || e.op == "or" {
		return b, err
	}
	v, err := r.operate(e.op, a, b)
	return v, at(e.line, err)
}
