package jinja

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

func (e *attribute) eval(r *run) (any, error) {
	v, err := r.value(e.of)
	if err != nil {
		return nil, err
	}
	v, err = member(v, e.name, true)
	return v, at(e.line, err)
}

// member evaluates v.name, or v['name']; v.name prefers methods of a dictionary.
func member(v any, name string, dot bool) (any, error) {
	switch v := v.(type) {
	case undefined:
		return nil, v.use()
	case *namespace:
		if one, ok := v.vars[name]; ok {
			return one, nil
		}
	case *loop:
		if one, ok := v.get(name); ok {
			return one, nil
		}
	case *dict:
		m := method(v, name)
		one, ok := v.get(name)
		switch {
		case m != nil && (dot || !ok):
			return m, nil
		case ok:
			return one, nil
		}
	case string:
		if m := method(v, name); m != nil {
			return m, nil
		}
		return undefined{fmt.Sprintf("unsupported string attribute %q", name)}, nil
	case []any, tuple:
		return undefined{fmt.Sprintf("unsupported attribute %q of %s", name, describe(v))}, nil
	}
	if v == nil {
		return undefined{fmt.Sprintf("None has no attribute %q", name)}, nil
	}
	return undefined{fmt.Sprintf("%s has no attribute %q", describe(v), name)}, nil
}

func (e *item) eval(r *run) (any, error) {
	v, err := r.value(e.of)
	if err != nil {
		return nil, err
	}
	k, err := r.value(e.at)
	if err != nil {
		return nil, err
	}
	v, err = element(v, k)
	return v, at(e.line, err)
}

// element evaluates v[k].
func element(v, k any) (any, error) {
	switch k := k.(type) {
	case string:
		return member(v, k, false)
	case undefined:
		return nil, k.use()
	}
	switch v := v.(type) {
	case undefined:
		return nil, v.use()
	case *dict:
		if one, ok := v.get(k); ok {
			return one, nil
		}
	case string, []any, tuple:
		i, ok := integer(k)
		n, _ := length(v)
		if i < 0 {
			i += int64(n)
		}
		if !ok || i < 0 || i >= int64(n) {
			break
		}
		if list, ok := sequence(v); ok {
			return list[i], nil
		}
		return cut(v.(string), int(i), int(i)+1), nil
	}
	return undefined{fmt.Sprintf("%s has no item with that key", describe(v))}, nil
}

func cut(s string, from, to int) string {
	at := func(n int) int {
		i := 0
		for ; n > 0 && i < len(s); n-- {
			_, size := utf8.DecodeRuneInString(s[i:])
			i += size
		}
		return i
	}
	if to <= from {
		return ""
	}
	return s[at(from):at(to)]
}

func (e *slice) eval(r *run) (any, error) {
	v, err := r.value(e.of)
	if err != nil {
		return nil, err
	}
	var bounds [3]any
	for i, part := range []expr{e.from, e.to, e.step} {
		if part == nil {
			continue
		}
		if bounds[i], err = r.value(part); err != nil {
			return nil, err
		}
	}
	v, err = r.sliced(v, bounds)
	return v, at(e.line, err)
}

// sliced evaluates v[from:to:step] as Python; nil bounds are open.
func (r *run) sliced(v any, bounds [3]any) (any, error) {
	if u, ok := v.(undefined); ok {
		return nil, u.use()
	}
	list, isList := sequence(v)
	s, isString := v.(string)
	if !isList && !isString {
		return undefined{fmt.Sprintf("%s cannot be sliced", describe(v))}, nil
	}
	n, _ := length(v)
	step := 1
	if bounds[2] != nil {
		i, ok := integer(bounds[2])
		if !ok || i == 0 {
			return nil, errors.New("the slice step must be a non-zero integer")
		}
		step = int(max(min(i, 1<<30), -1<<30))
	}
	lo, hi := 0, n
	if step < 0 {
		lo, hi = -1, n-1
	}
	ends := [2]int{lo, hi}
	if step < 0 {
		ends = [2]int{hi, lo}
	}
	for i, b := range bounds[:2] {
		if b == nil {
			continue
		}
		j, ok := integer(b)
		if !ok {
			return nil, fmt.Errorf("a slice bound is %s, not an integer", describe(b))
		}
		if j < 0 {
			j += int64(n)
		}
		ends[i] = int(max(min(j, int64(hi)), int64(lo)))
	}
	if err := r.spend(n / 16); err != nil {
		return nil, err
	}
	if isString && step == 1 {
		return cut(s, ends[0], ends[1]), nil
	}
	var runes []rune
	if isString {
		runes = []rune(s)
	}
	var out []any
	var chars []rune
	for i := ends[0]; step > 0 && i < ends[1] || step < 0 && i > ends[1]; i += step {
		if err := r.spend(1); err != nil {
			return nil, err
		}
		if isString {
			chars = append(chars, runes[i])
		} else {
			out = append(out, list[i])
		}
	}
	switch v.(type) {
	case string:
		return string(chars), nil
	case tuple:
		return tuple(out), nil
	}
	return out, nil
}
