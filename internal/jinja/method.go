package jinja

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A methodFunc is a method of strings or dictionaries. args has one value per parameter; those not
// given are missing.
type methodFunc func(r *run, self any, args []any) (any, error)

// methodEntry is a method and its number of arguments.
type methodEntry struct {
	minArgs, maxArgs int
	call             methodFunc
}

// Methods, by type, that published chat templates call.
var stringMethods = map[string]methodEntry{
	"strip":      {0, 1, stringTrim(true, true)},
	"lstrip":     {0, 1, stringTrim(true, false)},
	"rstrip":     {0, 1, stringTrim(false, true)},
	"split":      {0, 2, stringSplit(false)},
	"rsplit":     {0, 2, stringSplit(true)},
	"splitlines": {0, 1, splitLines},
	"startswith": {1, 1, affix(strings.HasPrefix)},
	"endswith":   {1, 1, affix(strings.HasSuffix)},
	"upper":      {0, 0, stringMap(strings.ToUpper)},
	"lower":      {0, 0, stringMap(strings.ToLower)},
	"capitalize": {0, 0, stringMap(capitalize)},
	"title":      {0, 0, stringMap(methodTitle)},
	"replace":    {2, 3, stringReplace},
	"join":       {1, 1, func(r *run, self any, args []any) (any, error) { return r.joinText(self.(string), args[0], true) }},
}

var dictMethods = map[string]methodEntry{
	"keys": {0, 0, func(_ *run, self any, _ []any) (any, error) { return self.(*dict).keys, nil }},
	"values": {0, 0, func(r *run, self any, _ []any) (any, error) {
		d := self.(*dict)
		out := make([]any, len(d.keys))
		for i, k := range d.keys {
			out[i], _ = d.get(k)
		}
		return out, r.spendItems(len(out))
	}},
	"items": {0, 0, func(r *run, self any, _ []any) (any, error) { return r.pairs(self.(*dict)) }},
	"get": {1, 2, func(_ *run, self any, args []any) (any, error) {
		if v, ok := self.(*dict).get(args[0]); ok || len(args) == 1 {
			return v, nil
		}
		return args[1], nil
	}},
}

// pairs returns a dictionary's (key, value) tuples.
func (r *run) pairs(d *dict) ([]any, error) {
	out := make([]any, len(d.keys))
	for i, k := range d.keys {
		v, _ := d.get(k)
		out[i] = tuple{k, v}
	}
	return out, r.spendItems(len(out))
}

func method(v any, name string) any {
	var set map[string]methodEntry
	switch v.(type) {
	case string:
		set = stringMethods
	case *dict:
		set = dictMethods
	}
	m, ok := set[name]
	if !ok {
		return nil
	}
	return function(func(r *run, args []any, named *dict) (any, error) {
		if len(named.keys) > 0 || len(args) < m.minArgs || len(args) > m.maxArgs {
			return nil, fmt.Errorf("%s takes %s positional arguments", name, span(m.minArgs, m.maxArgs))
		}
		for _, a := range args {
			if u, ok := a.(undefined); ok && name != "get" {
				return nil, u.use()
			}
		}
		if s, ok := v.(string); ok {
			if err := r.spendText(len(s)); err != nil {
				return nil, err
			}
		}
		out, err := m.call(r, v, args)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return out, nil
	})
}

func span(minArgs, maxArgs int) string {
	if minArgs == maxArgs {
		return fmt.Sprint(minArgs)
	}
	return fmt.Sprintf("%d to %d", minArgs, maxArgs)
}

func stringArg(v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("%s, expected a string", describe(v))
	}
	return s, nil
}

func stringMap(f func(string) string) methodFunc {
	return func(_ *run, self any, _ []any) (any, error) { return f(self.(string)), nil }
}

// affix is startswith or endswith, which also accept a tuple of strings.
func affix(has func(s, t string) bool) methodFunc {
	return func(r *run, self any, args []any) (any, error) {
		any, ok := args[0].(tuple)
		if !ok {
			any = tuple{args[0]}
		}
		for _, v := range any {
			t, err := stringArg(v)
			if err != nil {
				return nil, err
			}
			if has(self.(string), t) {
				return true, nil
			}
		}
		return false, nil
	}
}

// trimmed strips white space, or the characters of chars, from the ends of s.
func trimmed(s string, chars any, left, right bool) (string, error) {
	cut := isSpace
	if chars != nil {
		set, err := stringArg(chars)
		if err != nil {
			return "", err
		}
		cut = func(r rune) bool { return strings.ContainsRune(set, r) }
	}
	if left {
		s = strings.TrimLeftFunc(s, cut)
	}
	if right {
		s = strings.TrimRightFunc(s, cut)
	}
	return s, nil
}

func stringTrim(left, right bool) methodFunc {
	return func(_ *run, self any, args []any) (any, error) {
		return trimmed(self.(string), argument(args, 0), left, right)
	}
}

func argument(args []any, i int) any {
	if i < len(args) {
		return args[i]
	}
	return nil
}

func stringSplit(fromRight bool) methodFunc {
	return func(r *run, self any, args []any) (any, error) {
		s, limit := self.(string), int64(-1)
		if len(args) > 1 {
			var ok bool
			if limit, ok = integer(args[1]); !ok {
				return nil, fmt.Errorf("%s, expected a number", describe(args[1]))
			}
		}
		sep := ""
		if v := argument(args, 0); v != nil {
			var err error
			if sep, err = stringArg(v); err != nil {
				return nil, err
			}
			if sep == "" {
				return nil, errors.New("the separator is empty")
			}
		}
		var parts []any
		for limit < 0 || int64(len(parts)) < limit {
			if err := r.spend(1); err != nil {
				return nil, err
			}
			if sep == "" {
				s, _ = trimmed(s, nil, !fromRight, fromRight)
				if s == "" {
					break
				}
			}
			part, rest, ok := splitOnce(s, sep, fromRight)
			if !ok {
				break
			}
			parts, s = append(parts, part), rest
		}
		if sep != "" {
			parts = append(parts, s)
		} else if s, _ = trimmed(s, nil, !fromRight, fromRight); s != "" {
			parts = append(parts, s)
		}
		if fromRight {
			for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
				parts[i], parts[j] = parts[j], parts[i]
			}
		}
		return parts, nil
	}
}

// splitOnce splits s at its first or last separator; "" is any white space.
func splitOnce(s, sep string, fromRight bool) (part, rest string, ok bool) {
	i, n := 0, len(sep)
	switch {
	case sep != "" && !fromRight:
		i = strings.Index(s, sep)
	case sep != "":
		i = strings.LastIndex(s, sep)
	case !fromRight:
		i = strings.IndexFunc(s, isSpace)
	default:
		i = strings.LastIndexFunc(s, isSpace)
	}
	if i < 0 {
		return "", "", false
	}
	if sep == "" {
		_, n = utf8.DecodeRuneInString(s[i:])
	}
	if fromRight {
		return s[i+n:], s[:i], true
	}
	return s[:i], s[i+n:], true
}

func splitLines(r *run, self any, args []any) (any, error) {
	keep := truth(argument(args, 0))
	var out []any
	for s := self.(string); s != ""; {
		if err := r.spend(1); err != nil {
			return nil, err
		}
		i := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if i < 0 {
			out = append(out, s)
			break
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			n = 2
		}
		if keep {
			out = append(out, s[:i+n])
		} else {
			out = append(out, s[:i])
		}
		s = s[i+n:]
	}
	return out, nil
}

func stringReplace(r *run, self any, args []any) (any, error) {
	from, err := stringArg(args[0])
	if err != nil {
		return nil, err
	}
	to, err := stringArg(args[1])
	if err != nil {
		return nil, err
	}
	limit := int64(-1)
	if len(args) > 2 && args[2] != nil {
		var ok bool
		if limit, ok = integer(args[2]); !ok {
			return nil, fmt.Errorf("%s, expected a number", describe(args[2]))
		}
	}
	return r.replaced(self.(string), from, to, limit)
}

// replaced replaces from by to in s, limit times, or always if limit is negative.
func (r *run) replaced(s, from, to string, limit int64) (any, error) {
	n := strings.Count(s, from)
	if limit >= 0 {
		n = int(min(int64(n), limit))
	}
	if n > maxText || len(s)+n*len(to) > 2*maxText {
		return nil, errLarge
	}
	if err := r.spendText(len(s) + n*len(to) - n*len(from)); err != nil {
		return nil, err
	}
	return strings.Replace(s, from, to, n), nil
}

func capitalize(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToTitle(r)) + strings.ToLower(s[n:])
}

// methodTitle capitalizes each run of letters, as str.title does.
func methodTitle(s string) string {
	inside := false
	return strings.Map(func(r rune) rune {
		before := inside
		inside = unicode.IsLetter(r)
		if before {
			return unicode.ToLower(r)
		}
		return unicode.ToTitle(r)
	}, s)
}
