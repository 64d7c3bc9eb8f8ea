package cli

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"trireme/monitor"
)

// compareFacts orders values as numbers if both are, else as texts.
func compareFacts(a, b string) int {
	x, err1 := monitor.ParseNumber(a)
	y, err2 := monitor.ParseNumber(b)
	switch {
	case err1 == nil && err2 == nil:
		return cmp.Compare(x, y)
	case err1 == nil:
		return -1
	case err2 == nil:
		return 1
	}
	return strings.Compare(a, b)
}

// whereToken matches a part of an expression: a parenthesis, an operator, a quoted text or a word.
var whereToken = regexp.MustCompile(`^\s*(\(|\)|<=|>=|!=|==|=|<|>|~|"[^"]*"|'[^']*'|[^\s()<>=!~"']+)`)

// maxWhere limits the length of an expression, and so its nesting.
const maxWhere = 4096

// filter is a parsed expression.
type filter struct {
	keep  func(facts) bool
	names []string // that it compares, in the order of the expression
}

// parseWhere parses the expression of a filter. An empty one keeps all.
func parseWhere(text string) (filter, error) {
	if strings.TrimSpace(text) == "" {
		return filter{keep: func(facts) bool { return true }}, nil
	}
	bad := func(format string, args ...any) error {
		return usage(fmt.Sprintf("%q: ", text)+fmt.Sprintf(format, args...), "a filter such as 'training.learning_rate<1e-4 and loss<2.0'")
	}
	if len(text) > maxWhere {
		return filter{}, usage(fmt.Sprintf("a filter has %d characters, more than %d", len(text), maxWhere), "a shorter one")
	}
	var tokens []string
	for rest := text; strings.TrimSpace(rest) != ""; {
		m := whereToken.FindStringSubmatch(rest)
		if m == nil {
			return filter{}, bad("cannot read %q", strings.TrimSpace(rest))
		}
		tokens = append(tokens, m[1])
		rest = rest[len(m[0]):]
	}
	p := &whereParser{tokens: tokens}
	f, err := p.or()
	if err == nil && len(p.tokens) > 0 {
		err = fmt.Errorf("%q is not expected", p.tokens[0])
	}
	if err != nil {
		return filter{}, bad("%v", err)
	}
	return filter{f, p.names}, nil
}

type whereParser struct{ tokens, names []string }

func (p *whereParser) accept(words ...string) bool {
	for _, w := range words {
		if len(p.tokens) > 0 && strings.EqualFold(p.tokens[0], w) {
			p.tokens = p.tokens[1:]
			return true
		}
	}
	return false
}

func (p *whereParser) or() (func(facts) bool, error) {
	a, err := p.and()
	for err == nil && p.accept("or") {
		left := a
		var b func(facts) bool
		if b, err = p.and(); err == nil {
			a = func(f facts) bool { return left(f) || b(f) }
		}
	}
	return a, err
}

func (p *whereParser) and() (func(facts) bool, error) {
	a, err := p.not()
	for err == nil && p.accept("and") {
		left := a
		var b func(facts) bool
		if b, err = p.not(); err == nil {
			a = func(f facts) bool { return left(f) && b(f) }
		}
	}
	return a, err
}

func (p *whereParser) not() (func(facts) bool, error) {
	if p.accept("not") {
		a, err := p.not()
		return func(f facts) bool { return !a(f) }, err
	}
	if p.accept("(") {
		a, err := p.or()
		if err == nil && !p.accept(")") {
			err = fmt.Errorf("a parenthesis is not closed")
		}
		return a, err
	}
	return p.comparison()
}

func (p *whereParser) comparison() (func(facts) bool, error) {
	if len(p.tokens) < 3 {
		return nil, fmt.Errorf("a comparison is not complete")
	}
	name, op, value := p.tokens[0], p.tokens[1], strings.Trim(p.tokens[2], `"'`)
	if strings.ContainsAny(name[:1], `()<>=!~"'`) {
		return nil, fmt.Errorf("%q is not a name", name)
	}
	if strings.ContainsAny(p.tokens[2][:1], "()<>=!~") {
		return nil, fmt.Errorf("%q is not a value", p.tokens[2])
	}
	p.tokens, p.names = p.tokens[3:], append(p.names, name)
	if op == "~" {
		re, err := regexp.Compile(value)
		if err != nil {
			return nil, err
		}
		return func(f facts) bool { v, ok := f[name]; return ok && re.MatchString(v) }, nil
	}
	test, ok := map[string]func(int) bool{
		"=": func(n int) bool { return n == 0 }, "==": func(n int) bool { return n == 0 }, "!=": func(n int) bool { return n != 0 },
		"<": func(n int) bool { return n < 0 }, "<=": func(n int) bool { return n <= 0 }, ">": func(n int) bool { return n > 0 }, ">=": func(n int) bool { return n >= 0 },
	}[op]
	if !ok {
		return nil, fmt.Errorf("%q is not an operator", op)
	}
	_, err := monitor.ParseNumber(value)
	number := err == nil
	return func(f facts) bool {
		v, ok := f[name]
		if _, err := monitor.ParseNumber(v); !ok || (err == nil) != number && op != "=" && op != "==" && op != "!=" {
			return false
		}
		return test(compareFacts(v, value))
	}, nil
}
