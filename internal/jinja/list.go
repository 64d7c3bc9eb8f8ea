package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// path returns an attribute of v as filters name it: "a.b.0", or an index.
func path(v, name any) (any, error) {
	if i, ok := integer(name); ok {
		return element(v, i)
	}
	s, err := stringArg(name)
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(s, ".") {
		if i, bad := strconv.ParseInt(part, 10, 64); bad == nil {
			v, err = element(v, i)
		} else {
			v, err = element(v, part)
		}
		if err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (r *run) each(list []any, f func(any) (any, error)) ([]any, error) {
	out := make([]any, len(list))
	for i, v := range list {
		if err := r.spend(1); err != nil {
			return nil, err
		}
		var err error
		if out[i], err = f(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// mapped is the filter map: an attribute or a filter of each item.
func (r *run) mapped(v any, args []any, named *dict) (any, error) {
	list, err := r.items(v)
	if err != nil {
		return nil, err
	}
	if by, ok := named.get("attribute"); ok && len(args) == 0 {
		fallback, has := named.get("default")
		return r.each(list, func(v any) (any, error) {
			one, err := path(v, by)
			if _, missing := one.(undefined); missing && has {
				return fallback, nil
			}
			return one, err
		})
	}
	if len(args) == 0 {
		return nil, errors.New("map needs an attribute or a filter")
	}
	name, err := stringArg(args[0])
	if err != nil {
		return nil, err
	}
	return r.each(list, func(v any) (any, error) { return r.nested(name, v, args[1:], named) })
}

// nested applies a filter named by another filter, with limited depth.
func (r *run) nested(name string, v any, args []any, named *dict) (any, error) {
	if r.calls++; r.calls > maxCalls {
		return nil, fmt.Errorf("filters are nested more than %d levels deep", maxCalls)
	}
	v, err := r.filter(name, v, args, named)
	r.calls--
	return v, err
}

func (r *run) selected(name string, v any, args []any) (any, error) {
	list, err := r.items(v)
	if err != nil {
		return nil, err
	}
	of := func(v any) (any, error) { return v, nil }
	if strings.HasSuffix(name, "attr") {
		if len(args) == 0 {
			return nil, fmt.Errorf("%s needs an attribute", name)
		}
		by := args[0]
		of, args = func(v any) (any, error) { return path(v, by) }, args[1:]
	}
	check := func(v any) (bool, error) { return truth(v), nil }
	if len(args) > 0 {
		test, err := stringArg(args[0])
		if err != nil {
			return nil, err
		}
		check = func(v any) (bool, error) { return r.test(test, v, args[1:], newDict()) }
	}
	out := []any{}
	for _, v := range list {
		if err := r.spend(1); err != nil {
			return nil, err
		}
		one, err := of(v)
		if err != nil {
			return nil, err
		}
		ok, err := check(one)
		if err != nil {
			return nil, err
		}
		if ok == strings.HasPrefix(name, "select") {
			out = append(out, v)
		}
	}
	return out, nil
}

// sortKey returns the key function of a sort: an attribute, case-insensitive unless case_sensitive.
func (r *run) sortKey(p params) func(any) (any, error) {
	by, cased := p["attribute"], truth(p["case_sensitive"])
	return func(v any) (any, error) {
		if by != nil {
			var err error
			if v, err = path(v, by); err != nil {
				return nil, err
			}
		}
		if s, ok := v.(string); ok && !cased {
			return strings.ToLower(s), r.spendText(len(s))
		}
		return v, nil
	}
}

// sorted sorts the list by key, stably.
func (r *run) sorted(list []any, key func(any) (any, error), reverse bool) ([]any, error) {
	type keyed struct{ key, value any }
	pairs := make([]keyed, len(list))
	for i, v := range list {
		k, err := key(v)
		if err != nil {
			return nil, err
		}
		pairs[i] = keyed{k, v}
	}
	var failed error
	slices.SortStableFunc(pairs, func(a, b keyed) int {
		if failed != nil {
			return 0
		}
		c, err := r.compare(a.key, b.key, 0)
		failed = err
		if reverse {
			return -c
		}
		return c
	})
	out := make([]any, len(list))
	for i := range pairs {
		out[i] = pairs[i].value
	}
	return out, failed
}

func filterSort(r *run, v any, p params) (any, error) {
	list, err := r.items(v)
	if err != nil {
		return nil, err
	}
	out, err := r.sorted(list, r.sortKey(p), truth(p["reverse"]))
	return out, err
}

func filterDictSort(r *run, v any, p params) (any, error) {
	d, ok := v.(*dict)
	if !ok {
		return nil, fmt.Errorf("%s is not a dictionary", describe(v))
	}
	pairs, err := r.pairs(d)
	if err != nil {
		return nil, err
	}
	at := int64(0)
	switch p.get("by", "key") {
	case "key":
	case "value":
		at = 1
	default:
		return nil, errors.New("by must be key or value")
	}
	key := r.sortKey(params{"attribute": at, "case_sensitive": p["case_sensitive"]})
	out, err := r.sorted(pairs, key, truth(p["reverse"]))
	return out, err
}
