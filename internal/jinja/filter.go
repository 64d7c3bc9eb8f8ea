package jinja

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// A filter is called with its value. Parameters not given are absent from params.
type filter struct {
	params []string
	call   func(r *run, v any, p params) (any, error)
}

// params are the arguments of a filter by name.
type params map[string]any

// get returns an argument, or absent if it is not given.
func (p params) get(name string, absent any) any {
	if v, ok := p[name]; ok {
		return v
	}
	return absent
}

func (p params) whole(name string, absent int64) (int64, error) {
	i, ok := integer(p.get(name, absent))
	if !ok {
		return 0, fmt.Errorf("%s is %s, not a number", name, describe(p[name]))
	}
	return i, nil
}

// filters are the Jinja2 filters that published chat templates use.
var filters = map[string]*filter{
	"capitalize": {nil, onText(capitalize)},
	"count":      {nil, filterLength},
	"d":          {[]string{"default_value", "boolean"}, filterDefault},
	"default":    {[]string{"default_value", "boolean"}, filterDefault},
	"dictsort":   {[]string{"case_sensitive", "by", "reverse"}, filterDictSort},
	"first":      {nil, filterEnd(true)},
	"indent":     {[]string{"width", "first", "blank"}, filterIndent},
	"int":        {[]string{"default"}, filterInt},
	"items":      {nil, filterItems},
	"join":       {[]string{"d", "attribute"}, filterJoin},
	"last":       {nil, filterEnd(false)},
	"length":     {nil, filterLength},
	"list":       {nil, filterList},
	"lower":      {nil, onText(strings.ToLower)},
	"replace":    {[]string{"old", "new", "count"}, filterReplace},
	"reverse":    {nil, filterReverse},
	"safe":       {nil, func(r *run, v any, _ params) (any, error) { return r.text(v) }},
	"sort":       {[]string{"reverse", "case_sensitive", "attribute"}, filterSort},
	"string":     {nil, func(r *run, v any, _ params) (any, error) { return r.text(v) }},
	"title":      {nil, onText(filterTitle)},
	"tojson":     {[]string{"ensure_ascii", "indent", "separators", "sort_keys"}, filterJSON},
	"trim":       {[]string{"chars"}, filterTrim},
	"upper":      {nil, onText(strings.ToUpper)},

	// Implemented in run.filter.
	"map": {}, "select": {}, "reject": {}, "selectattr": {}, "rejectattr": {},
}

func (r *run) filter(name string, v any, args []any, named *dict) (any, error) {
	switch name {
	case "map":
		return r.mapped(v, args, named)
	case "select", "reject", "selectattr", "rejectattr":
		return r.selected(name, v, args)
	}
	f := filters[name]
	if f == nil {
		return nil, fmt.Errorf("unsupported filter %q", name)
	}
	if len(args) > len(f.params) {
		return nil, fmt.Errorf("filter %s takes %d arguments, not %d", name, len(f.params), len(args))
	}
	p := params{}
	for i, a := range args {
		p[f.params[i]] = a
	}
	for _, key := range named.keys {
		k, a := key.(string), named.values[key]
		if _, twice := p[k]; twice || !slices.Contains(f.params, k) {
			return nil, fmt.Errorf("filter %s: unsupported argument %s", name, k)
		}
		p[k] = a
	}
	out, err := f.call(r, v, p)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

func onText(f func(string) string) func(*run, any, params) (any, error) {
	return func(r *run, v any, _ params) (any, error) {
		s, err := r.text(v)
		return f(s), err
	}
}

func filterDefault(_ *run, v any, p params) (any, error) {
	_, missing := v.(undefined)
	if missing || truth(p["boolean"]) && !truth(v) {
		return p.get("default_value", ""), nil
	}
	return v, nil
}

func filterLength(_ *run, v any, _ params) (any, error) {
	n, ok := length(v)
	if !ok {
		return nil, fmt.Errorf("%s has no length", describe(v))
	}
	return int64(n), nil
}

func filterEnd(first bool) func(*run, any, params) (any, error) {
	return func(r *run, v any, _ params) (any, error) {
		list, err := r.items(v)
		switch {
		case err != nil:
			return nil, err
		case len(list) == 0:
			return undefined{"the sequence is empty"}, nil
		case first:
			return list[0], nil
		}
		return list[len(list)-1], nil
	}
}

// items returns the items of v and counts the steps.
func (r *run) items(v any) ([]any, error) {
	if n, ok := length(v); ok {
		if err := r.spendItems(n / 4); err != nil {
			return nil, err
		}
	}
	return items(v)
}

func filterList(r *run, v any, _ params) (any, error) {
	list, err := r.items(v)
	return list, err
}

func filterItems(r *run, v any, _ params) (any, error) {
	switch v := v.(type) {
	case undefined:
		return []any(nil), nil
	case *dict:
		return r.pairs(v)
	}
	return nil, fmt.Errorf("%s is not a mapping", describe(v))
}

func filterReverse(r *run, v any, _ params) (any, error) {
	list, err := r.items(v)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(list)
	slices.Reverse(out)
	if _, ok := v.(string); ok {
		return r.joinText("", out, true)
	}
	return out, nil
}

func filterInt(_ *run, v any, p params) (any, error) {
	if i, ok := integer(v); ok {
		return i, nil
	}
	f, ok := v.(float64)
	if s, isString := v.(string); isString {
		s = strings.TrimFunc(s, isSpace)
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return i, nil
		}
		var err error
		f, err = strconv.ParseFloat(s, 64)
		ok = err == nil
	}
	if ok && math.Abs(f) < 1<<63 {
		return int64(f), nil
	}
	return p.get("default", int64(0)), nil
}

func filterIndent(r *run, v any, p params) (any, error) {
	s, err := r.text(v)
	if err != nil {
		return nil, err
	}
	by, ok := p["width"].(string)
	if !ok {
		n, err := p.whole("width", 4)
		if err != nil {
			return nil, err
		}
		if n > 1000 {
			return nil, errLarge
		}
		by = strings.Repeat(" ", int(max(n, 0)))
	}
	s += "\n" // as in Jinja2: keeps an empty last line
	lines, err := splitLines(r, s, nil)
	if err != nil {
		return nil, err
	}
	list := lines.([]any)
	if err := r.spendText(len(s) + len(list)*len(by)); err != nil {
		return nil, err
	}
	var b strings.Builder
	for i, one := range list {
		line := one.(string)
		if i > 0 {
			b.WriteByte('\n')
		}
		switch {
		case i == 0 && truth(p["first"]), i > 0 && (line != "" || truth(p["blank"])):
			b.WriteString(by)
		}
		b.WriteString(line)
	}
	return b.String(), nil
}

// joinText joins the items of v with sep; strict allows only strings.
func (r *run) joinText(sep string, v any, strict bool) (any, error) {
	list, err := r.items(v)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for i, one := range list {
		s, ok := one.(string)
		if !ok && strict {
			return nil, fmt.Errorf("item %d is %s, not a string", i, describe(one))
		}
		if !ok {
			if s, err = r.text(one); err != nil {
				return nil, err
			}
		}
		if i > 0 {
			b.WriteString(sep)
		}
		if err := r.spend((len(sep) + len(s)) / 64); err != nil {
			return nil, err
		}
		if b.Len()+len(s) > maxText {
			return nil, errLarge
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

func filterJoin(r *run, v any, p params) (any, error) {
	sep, err := r.text(p.get("d", ""))
	if err != nil {
		return nil, err
	}
	if by := p["attribute"]; by != nil {
		list, err := r.items(v)
		if err != nil {
			return nil, err
		}
		if v, err = r.each(list, func(one any) (any, error) { return path(one, by) }); err != nil {
			return nil, err
		}
	}
	return r.joinText(sep, v, false)
}

func filterReplace(r *run, v any, p params) (any, error) {
	s, err := r.text(v)
	if err != nil {
		return nil, err
	}
	from, err := r.text(p["old"])
	if err != nil {
		return nil, err
	}
	to, err := r.text(p["new"])
	if err != nil {
		return nil, err
	}
	limit := int64(-1)
	if p["count"] != nil {
		if limit, err = p.whole("count", -1); err != nil {
			return nil, err
		}
	}
	return r.replaced(s, from, to, limit)
}

func filterTrim(r *run, v any, p params) (any, error) {
	s, err := r.text(v)
	if err != nil {
		return nil, err
	}
	return trimmed(s, p["chars"], true, true)
}

func filterTitle(s string) string {
	inside := false
	return strings.Map(func(r rune) rune {
		before := inside
		inside = !isSpace(r) && !strings.ContainsRune("-([{<", r)
		if before {
			return unicode.ToLower(r)
		}
		return unicode.ToTitle(r)
	}, s)
}
