package jinja

import (
	"fmt"
	"strconv"
)

type expr interface {
	eval(r *run) (any, error)
}

// Expressions. Those that may fail have their line.
type (
	literal   struct{ value any }
	variable  struct{ name string }
	listExpr  struct{ items []expr }
	tupleExpr struct{ items []expr }
	dictExpr  struct{ keys, values []expr }
	attribute struct {
		of   expr
		name string
		line int
	}
	item struct {
		of, at expr
		line   int
	}
	slice struct {
		of, from, to, step expr // from, to and step may be nil
		line               int
	}
	arguments struct {
		args   []expr
		names  []string // of named
		named  []expr
		spread []expr // *x
	}
	call struct {
		of   expr
		args arguments
		line int
	}
	filterExpr struct {
		of   expr
		name string
		args arguments
		line int
	}
	testExpr struct {
		of   expr
		name string
		args arguments
		not  bool
		line int
	}
	unary struct {
		op   string
		of   expr
		line int
	}
	binary struct {
		op   string
		a, b expr
		line int
	}
	comparison struct {
		first expr
		ops   []string
		rest  []expr
		line  int
	}
	condition struct {
		test, then, other expr // other may be nil
	}
)

const maxNesting = 200

// deeper counts nesting; the caller decrements p.depth.
func (p *parser) deeper() error {
	if p.depth++; p.depth > maxNesting {
		return p.errorf("nested more than %d levels deep", maxNesting)
	}
	return nil
}

// expression parses "a if b else c" and tighter operators.
func (p *parser) expression() (expr, error) {
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	e, err := p.or()
	for err == nil && p.word("if") {
		c := &condition{then: e}
		if c.test, err = p.or(); err != nil {
			return nil, err
		}
		if p.word("else") {
			c.other, err = p.expression()
		}
		e = c
	}
	return e, err
}

// chain parses left-associative operators.
func (p *parser) chain(next func() (expr, error), ops ...string) (expr, error) {
	e, err := next()
	for err == nil {
		line, op := p.peek().line, p.oneOf(ops)
		if op == "" {
			break
		}
		var b expr
		if b, err = next(); err == nil {
			e = &binary{op, e, b, line}
		}
	}
	return e, err
}

func (p *parser) or() (expr, error)  { return p.chain(p.and, "or") }
func (p *parser) and() (expr, error) { return p.chain(p.not, "and") }

func (p *parser) not() (expr, error) {
	line := p.peek().line
	if !p.word("not") {
		return p.compare()
	}
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	e, err := p.not()
	return &unary{"not", e, line}, err
}

func (p *parser) compare() (expr, error) {
	e, err := p.sum()
	if err != nil {
		return nil, err
	}
	c := &comparison{first: e, line: p.peek().line}
	for {
		op := p.oneOf([]string{"==", "!=", "<", "<=", ">", ">=", "in"})
		if op == "" && p.peek().kind == name && p.peek().val == "not" && p.tokens[p.at+1].val == "in" && p.tokens[p.at+1].kind == name {
			p.at += 2
			op = "not in"
		}
		if op == "" {
			break
		}
		b, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, b)
	}
	if len(c.ops) == 0 {
		return e, nil
	}
	return c, nil
}

func (p *parser) sum() (expr, error)    { return p.chain(p.concat, "+", "-") }
func (p *parser) concat() (expr, error) { return p.chain(p.product, "~") }
func (p *parser) product() (expr, error) {
	return p.chain(func() (expr, error) { return p.unary(true) }, "*", "/", "//", "%")
}

// unary parses signs and their operand, then filters.
func (p *parser) unary(filters bool) (expr, error) {
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	line := p.peek().line
	var e expr
	var err error
	if op := p.oneOf([]string{"-", "+"}); op != "" {
		e, err = p.unary(false)
		e = &unary{op, e, line}
	} else {
		e, err = p.primary()
	}
	if err == nil {
		e, err = p.postfix(e)
	}
	if err == nil && filters {
		e, err = p.filtered(e)
	}
	return e, err
}

func (p *parser) primary() (expr, error) {
	t := p.take()
	switch t.kind {
	case name:
		switch t.val {
		case "true", "True":
			return literal{true}, nil
		case "false", "False":
			return literal{false}, nil
		case "none", "None":
			return literal{nil}, nil
		}
		return variable{t.val}, nil
	case str:
		for p.peek().kind == str {
			t.val += p.take().val
		}
		return literal{t.val}, nil
	case number:
		if i, err := strconv.ParseInt(t.val, 10, 64); err == nil {
			return literal{i}, nil
		}
		f, err := strconv.ParseFloat(t.val, 64)
		if err != nil {
			return nil, fmt.Errorf("line %d: the number %.40s is too large", t.line, t.val)
		}
		return literal{f}, nil
	case operator:
		switch t.val {
		case "(":
			e, err := p.tuple(true, ")")
			if err != nil {
				return nil, err
			}
			return e, p.need(")")
		case "[":
			list := &listExpr{}
			err := p.commas("]", func() error {
				e, err := p.expression()
				list.items = append(list.items, e)
				return err
			})
			return list, err
		case "{":
			d := &dictExpr{}
			err := p.commas("}", func() error {
				k, err := p.expression()
				if err != nil {
					return err
				}
				if err := p.need(":"); err != nil {
					return err
				}
				v, err := p.expression()
				d.keys, d.values = append(d.keys, k), append(d.values, v)
				return err
			})
			return d, err
		}
	}
	return nil, fmt.Errorf("line %d: unexpected %s", t.line, t.spell())
}

// tuple parses an expression, or several separated by commas: a tuple. empty allows none.
func (p *parser) tuple(empty bool, close string) (expr, error) {
	var list []expr
	comma := false
	for {
		if t := p.peek(); t.kind == operator && t.val == close || t.kind == endTag || t.kind == endOutput || t.kind == end {
			break
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		list = append(list, e)
		if !p.symbol(",") {
			break
		}
		comma = true
	}
	switch {
	case len(list) == 1 && !comma:
		return list[0], nil
	case len(list) == 0 && !empty:
		return nil, p.unexpected()
	}
	return &tupleExpr{list}, nil
}

// commas parses comma-separated items up to close.
func (p *parser) commas(close string, one func() error) error {
	for {
		if p.symbol(close) {
			return nil
		}
		if err := one(); err != nil {
			return err
		}
		if !p.symbol(",") {
			return p.need(close)
		}
	}
}

// postfix parses any number of .name, [item], [slice] and (call).
func (p *parser) postfix(e expr) (expr, error) {
	for {
		line := p.peek().line
		switch {
		case p.symbol("."):
			t := p.take()
			if t.kind == number {
				i, err := strconv.ParseInt(t.val, 10, 64)
				if err != nil {
					return nil, fmt.Errorf("line %d: unexpected %s", line, t.spell())
				}
				e = &item{e, literal{i}, line}
				continue
			}
			if t.kind != name {
				return nil, fmt.Errorf("line %d: unexpected %s after a dot", line, t.spell())
			}
			e = &attribute{e, t.val, line}
		case p.symbol("["):
			var err error
			if e, err = p.subscript(e, line); err != nil {
				return nil, err
			}
		case p.symbol("("):
			args, err := p.arguments()
			if err != nil {
				return nil, err
			}
			e = &call{e, args, line}
		default:
			return e, nil
		}
	}
}

func (p *parser) subscript(of expr, line int) (expr, error) {
	var parts [3]expr
	n := 0
	for {
		if p.symbol("]") {
			break
		}
		if p.symbol(":") {
			if n++; n > 2 {
				return nil, fmt.Errorf("line %d: a slice has more than three parts", line)
			}
			continue
		}
		if parts[n] != nil {
			return nil, p.unexpected()
		}
		var err error
		if parts[n], err = p.expression(); err != nil {
			return nil, err
		}
	}
	switch {
	case n > 0:
		return &slice{of, parts[0], parts[1], parts[2], line}, nil
	case parts[0] == nil:
		return nil, fmt.Errorf("line %d: empty subscript", line)
	}
	return &item{of, parts[0], line}, nil
}

func (p *parser) arguments() (arguments, error) {
	var a arguments
	err := p.commas(")", func() error {
		if p.symbol("*") {
			e, err := p.expression()
			a.spread = append(a.spread, e)
			return err
		}
		t, after := p.peek(), p.tokens[min(p.at+1, len(p.tokens)-1)]
		if t.kind == name && after.kind == operator && after.val == "=" {
			p.at += 2
			e, err := p.expression()
			a.names, a.named = append(a.names, t.val), append(a.named, e)
			return err
		}
		if len(a.named) > 0 {
			return p.errorf("positional argument after a keyword argument")
		}
		e, err := p.expression()
		a.args = append(a.args, e)
		return err
	})
	return a, err
}

// filtered parses any number of "| filter" and "is test".
func (p *parser) filtered(e expr) (expr, error) {
	for {
		line := p.peek().line
		switch {
		case p.symbol("|"):
			f, err := p.filter(e, line)
			if err != nil {
				return nil, err
			}
			e = f
		case p.word("is"):
			t, err := p.test(e, line)
			if err != nil {
				return nil, err
			}
			e = t
		default:
			return e, nil
		}
	}
}

// filter parses a filter's name and arguments. An unknown filter is an error when it runs:
// templates have parts that a conversation does not use.
func (p *parser) filter(of expr, line int) (expr, error) {
	t := p.take()
	if t.kind != name {
		return nil, fmt.Errorf("line %d: unexpected %s, expected a filter", line, t.spell())
	}
	f := &filterExpr{of: of, name: t.val, line: line}
	var err error
	if p.symbol("(") {
		f.args, err = p.arguments()
	}
	return f, err
}

// test parses a test's name, optionally after "not", and its arguments; a single argument needs no
// parentheses.
func (p *parser) test(of expr, line int) (expr, error) {
	e := &testExpr{of: of, not: p.word("not"), line: line}
	t := p.take()
	if e.name = t.val; t.kind != name {
		return nil, fmt.Errorf("line %d: unexpected %s, expected a test", line, t.spell())
	}
	var err error
	if p.symbol("(") {
		e.args, err = p.arguments()
		return e, err
	}
	next := p.peek()
	single := next.kind == str || next.kind == number || next.kind == operator && (next.val == "[" || next.val == "{")
	if next.kind == name {
		switch next.val {
		case "else", "or", "and", "is", "if", "in", "not":
		default:
			single = true
		}
	}
	if !single {
		return e, nil
	}
	arg, err := p.primary()
	if err == nil {
		arg, err = p.postfix(arg)
	}
	e.args.args = []expr{arg}
	return e, err
}
