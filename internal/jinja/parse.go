package jinja

import (
	"fmt"
	"slices"
	"strings"
)

// maxSource is the maximum size of a template; published ones have up to about 30 KiB.
const maxSource = 256 << 10

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	// Strict makes every undefined value an error, even where Jinja2 prints nothing, tests it as false or
	// replaces it by a default.
	Strict bool

	body       []node
	generation bool
}

// HasGeneration reports whether the template has {% generation %} blocks.
func (t *Template) HasGeneration() bool { return t.generation }

// Parse parses a template. Errors begin with "jinja: line N".
func Parse(source string) (*Template, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("jinja: the template has %d bytes, more than %d", len(source), maxSource)
	}
	tokens, err := lex(source)
	if err != nil {
		return nil, fmt.Errorf("jinja: %w", err)
	}
	p := &parser{tokens: tokens}
	body, stop, err := p.until()
	if err == nil && stop != "" {
		err = fmt.Errorf("line %d: unexpected tag %q", p.peek().line, stop)
	}
	if err != nil {
		return nil, fmt.Errorf("jinja: %w", err)
	}
	return &Template{body: body, generation: p.generation}, nil
}

type parser struct {
	tokens     []token
	at         int
	depth      int
	loops      int // enclosing for tags in the same macro
	generation bool
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) take() token {
	t := p.tokens[p.at]
	if t.kind != end {
		p.at++
	}
	return t
}

func (p *parser) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d: "+format, append([]any{p.peek().line}, args...)...)
}

func (p *parser) unexpected() error { return p.errorf("unexpected %s", p.peek().spell()) }

// symbol consumes an operator if it is next.
func (p *parser) symbol(s string) bool {
	if t := p.peek(); t.kind == operator && t.val == s {
		p.at++
		return true
	}
	return false
}

// word consumes a name if it is next.
func (p *parser) word(s string) bool {
	if t := p.peek(); t.kind == name && t.val == s {
		p.at++
		return true
	}
	return false
}

// oneOf consumes and returns the next token if it is one of ops, else "".
func (p *parser) oneOf(ops []string) string {
	if t := p.peek(); (t.kind == operator || t.kind == name) && slices.Contains(ops, t.val) {
		p.at++
		return t.val
	}
	return ""
}

func (p *parser) need(s string) error {
	if !p.symbol(s) {
		return p.errorf("unexpected %s, expected %q", p.peek().spell(), s)
	}
	return nil
}

func (p *parser) ident() (string, error) {
	t := p.peek()
	if t.kind != name {
		return "", p.errorf("unexpected %s, expected a name", t.spell())
	}
	p.at++
	return t.val, nil
}

func (p *parser) tagEnd() error {
	if t := p.peek(); t.kind != endTag {
		return p.unexpected()
	}
	p.at++
	return nil
}

// until parses text and tags up to one of the tags names, whose name is consumed and returned; ""
// at the end of the template.
func (p *parser) until(names ...string) (body []node, stop string, err error) {
	if err := p.deeper(); err != nil {
		return nil, "", err
	}
	defer func() { p.depth-- }()
	for {
		t := p.take()
		switch t.kind {
		case end:
			if len(names) > 0 {
				return nil, "", fmt.Errorf("line %d: unexpected end of template, expected %s", t.line, strings.Join(names, " or "))
			}
			return body, "", nil
		case textToken:
			body = append(body, textNode(t.val))
		case beginOutput:
			e, err := p.tuple(false, "")
			if err != nil {
				return nil, "", err
			}
			if p.take().kind != endOutput {
				p.at--
				return nil, "", p.unexpected()
			}
			body = append(body, &output{e, t.line})
		case beginTag:
			tag, err := p.ident()
			if err != nil {
				return nil, "", err
			}
			if slices.Contains(names, tag) {
				return body, tag, nil
			}
			n, err := p.tag(tag, t.line)
			if err != nil {
				return nil, "", err
			}
			body = append(body, n)
		default:
			return nil, "", fmt.Errorf("line %d: unexpected %s", t.line, t.spell())
		}
	}
}

// block parses a body and its end tag.
func (p *parser) block(stop string) ([]node, error) {
	body, _, err := p.until(stop)
	if err != nil {
		return nil, err
	}
	return body, p.tagEnd()
}

func (p *parser) tag(tag string, line int) (node, error) {
	switch tag {
	case "if":
		return p.ifTag()
	case "for":
		return p.forTag(line)
	case "set":
		return p.setTag(line)
	case "macro":
		return p.macroTag(line)
	case "call":
		return p.callTag(line)
	case "generation":
		if err := p.tagEnd(); err != nil {
			return nil, err
		}
		p.generation = true
		body, err := p.block("endgeneration")
		return &generation{body, line}, err
	case "break", "continue":
		if p.loops == 0 {
			return nil, fmt.Errorf("line %d: %s outside a loop", line, tag)
		}
		return &jump{tag == "break"}, p.tagEnd()
	}
	return nil, fmt.Errorf("line %d: unsupported tag %q", line, tag)
}

func (p *parser) ifTag() (node, error) {
	n := &ifNode{}
	stop := "if"
	for {
		if stop != "else" {
			n.lines = append(n.lines, p.peek().line)
			test, err := p.expression()
			if err != nil {
				return nil, err
			}
			n.tests = append(n.tests, test)
		}
		if err := p.tagEnd(); err != nil {
			return nil, err
		}
		names := []string{"elif", "else", "endif"}
		if stop == "else" {
			names = names[2:]
		}
		body, next, err := p.until(names...)
		if err != nil {
			return nil, err
		}
		n.bodies = append(n.bodies, body)
		if stop = next; stop == "endif" {
			return n, p.tagEnd()
		}
	}
}

// targets parses the assigned names of a loop or set.
func (p *parser) targets() ([]string, error) {
	paren := p.symbol("(")
	var names []string
	for {
		s, err := p.ident()
		if err != nil {
			return nil, err
		}
		names = append(names, s)
		if !p.symbol(",") {
			break
		}
	}
	if paren {
		return names, p.need(")")
	}
	return names, nil
}

func (p *parser) forTag(line int) (_ node, err error) {
	n := &forNode{line: line}
	if n.names, err = p.targets(); err != nil {
		return nil, err
	}
	if !p.word("in") {
		return nil, p.errorf("unexpected %s, expected \"in\"", p.peek().spell())
	}
	// "if" filters the loop here, so this is not a conditional expression.
	if n.over, err = p.or(); err != nil {
		return nil, err
	}
	if p.peek().kind == operator && p.peek().val == "," {
		t := &tupleExpr{[]expr{n.over}}
		for p.symbol(",") {
			e, err := p.or()
			if err != nil {
				return nil, err
			}
			t.items = append(t.items, e)
		}
		n.over = t
	}
	if p.word("if") {
		if n.test, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if err := p.tagEnd(); err != nil {
		return nil, err
	}
	p.loops++
	body, stop, err := p.until("else", "endfor")
	p.loops--
	if err != nil {
		return nil, err
	}
	n.body = body
	if stop == "else" {
		if err := p.tagEnd(); err != nil {
			return nil, err
		}
		n.none, err = p.block("endfor")
		return n, err
	}
	return n, p.tagEnd()
}

func (p *parser) setTag(line int) (_ node, err error) {
	n := &setNode{line: line}
	if n.names, err = p.targets(); err != nil {
		return nil, err
	}
	if len(n.names) == 1 && p.symbol(".") {
		if n.attr, err = p.ident(); err != nil {
			return nil, err
		}
	}
	if p.symbol("=") {
		if n.value, err = p.tuple(false, ""); err != nil {
			return nil, err
		}
		return n, p.tagEnd()
	}
	if len(n.names) > 1 {
		return nil, p.unexpected()
	}
	if err := p.tagEnd(); err != nil {
		return nil, err
	}
	n.body, err = p.block("endset")
	n.block = true
	return n, err
}

// signature parses a macro's parameters after the opening parenthesis.
func (p *parser) signature(m *macro) error {
	return p.commas(")", func() error {
		s, err := p.ident()
		if err != nil {
			return err
		}
		var fallback expr
		if p.symbol("=") {
			if fallback, err = p.expression(); err != nil {
				return err
			}
		} else if len(m.defaults) > 0 && m.defaults[len(m.defaults)-1] != nil {
			return p.errorf("parameter %s without a default follows one with a default", s)
		}
		m.params, m.defaults = append(m.params, s), append(m.defaults, fallback)
		return nil
	})
}

// macroBody parses a body; break and continue in it do not apply to loops outside.
func (p *parser) macroBody(m *macro, stop string) (err error) {
	loops := p.loops
	p.loops = 0
	m.body, err = p.block(stop)
	p.loops = loops
	return err
}

func (p *parser) macroTag(line int) (node, error) {
	m := &macro{line: line}
	var err error
	if m.name, err = p.ident(); err != nil {
		return nil, err
	}
	if err := p.need("("); err != nil {
		return nil, err
	}
	if err := p.signature(m); err != nil {
		return nil, err
	}
	if err := p.tagEnd(); err != nil {
		return nil, err
	}
	return m, p.macroBody(m, "endmacro")
}

func (p *parser) callTag(line int) (node, error) {
	n := &callNode{caller: &macro{name: "caller", line: line}, line: line}
	if p.symbol("(") {
		if err := p.signature(n.caller); err != nil {
			return nil, err
		}
	}
	e, err := p.expression()
	if err != nil {
		return nil, err
	}
	c, ok := e.(*call)
	if !ok {
		return nil, fmt.Errorf("line %d: the call tag needs a call", line)
	}
	n.call = c
	if err := p.tagEnd(); err != nil {
		return nil, err
	}
	return n, p.macroBody(n.caller, "endcall")
}
