package jinja

import (
	"errors"
	"fmt"
)

type node interface {
	exec(r *run) error
}

// Statements.
type (
	textNode string
	output   struct {
		of   expr
		line int
	}
	ifNode struct {
		tests  []expr
		lines  []int    // of tests
		bodies [][]node // one more than tests if there is an else
	}
	forNode struct {
		names      []string
		over, test expr // test may be nil
		body, none []node
		line       int
	}
	jump struct{ out bool } // break; else continue

	// setNode assigns a value to names or to an attribute, or captures a block.
	setNode struct {
		names []string
		attr  string
		value expr
		block bool
		body  []node
		line  int
	}
	macro struct {
		name     string
		params   []string
		defaults []expr // nil: none
		body     []node
		line     int
	}
	callNode struct {
		call   *call
		caller *macro
		line   int
	}
	generation struct {
		body []node
		line int
	}
)

var errBreak, errContinue = errors.New("break"), errors.New("continue")

func (r *run) body(nodes []node) error {
	for _, n := range nodes {
		if err := r.spend(1); err != nil {
			return err
		}
		if err := n.exec(r); err != nil {
			return err
		}
	}
	return nil
}

func (n textNode) exec(r *run) error { return r.print(string(n)) }

func (n *output) exec(r *run) error {
	v, err := r.value(n.of)
	return r.printValue(n.line, v, err)
}

// printValue prints a value, or returns its error with the line.
func (r *run) printValue(line int, v any, err error) error {
	if err != nil {
		return at(line, err)
	}
	s, err := r.text(v)
	if err == nil {
		err = r.print(s)
	}
	return at(line, err)
}

func (n *ifNode) exec(r *run) error {
	for i, test := range n.tests {
		v, err := r.value(test)
		if err != nil {
			return at(n.lines[i], err)
		}
		if truth(v) {
			return r.body(n.bodies[i])
		}
	}
	if len(n.bodies) > len(n.tests) {
		return r.body(n.bodies[len(n.tests)])
	}
	return nil
}

// assign assigns a value to a name, or unpacks it to several.
func (r *run) assign(names []string, v any) error {
	if len(names) == 1 {
		r.scope.set(names[0], v)
		return nil
	}
	parts, err := items(v)
	if err != nil {
		return err
	}
	if len(parts) != len(names) {
		return fmt.Errorf("cannot unpack %d values into %d names", len(parts), len(names))
	}
	for i, name := range names {
		r.scope.set(name, parts[i])
	}
	return nil
}

type loop struct {
	items []any
	at    int
}

func (l *loop) get(name string) (any, bool) {
	n := len(l.items)
	switch name {
	case "index":
		return int64(l.at + 1), true
	case "index0":
		return int64(l.at), true
	case "revindex":
		return int64(n - l.at), true
	case "revindex0":
		return int64(n - l.at - 1), true
	case "first":
		return l.at == 0, true
	case "last":
		return l.at == n-1, true
	case "length":
		return int64(n), true
	case "previtem":
		if l.at == 0 {
			return undefined{"no previous item"}, true
		}
		return l.items[l.at-1], true
	case "nextitem":
		if l.at == n-1 {
			return undefined{"no next item"}, true
		}
		return l.items[l.at+1], true
	}
	return nil, false
}

func (n *forNode) exec(r *run) error {
	v, err := r.value(n.over)
	if err != nil {
		return at(n.line, err)
	}
	up := r.scope
	all, err := items(v)
	if err != nil {
		return at(n.line, err)
	}
	if n.test != nil {
		if all, err = n.filtered(r, up, all); err != nil {
			return at(n.line, err)
		}
	}
	if len(all) == 0 {
		return r.inner(up, func() error { return r.body(n.none) })
	}
	l := &loop{items: all}
	for i, v := range all {
		l.at = i
		err := r.inner(up, func() error {
			r.scope.set("loop", l)
			if err := r.assign(n.names, v); err != nil {
				return at(n.line, err)
			}
			return r.body(n.body)
		})
		if errors.Is(err, errBreak) {
			break
		}
		if err != nil && !errors.Is(err, errContinue) {
			return err
		}
	}
	return nil
}

func (n *forNode) filtered(r *run, up *scope, all []any) (some []any, err error) {
	for _, v := range all {
		err := r.inner(up, func() error {
			if err := r.assign(n.names, v); err != nil {
				return at(n.line, err)
			}
			ok, err := r.value(n.test)
			if err == nil && truth(ok) {
				some = append(some, v)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return some, nil
}

func (n *jump) exec(*run) error {
	if n.out {
		return errBreak
	}
	return errContinue
}

func (n *setNode) exec(r *run) error {
	var v any
	var err error
	if n.block {
		v, err = r.capture(func() error { return r.inner(r.scope, func() error { return r.body(n.body) }) })
	} else {
		v, err = r.value(n.value)
	}
	if err != nil {
		return at(n.line, err)
	}
	if n.attr == "" {
		return at(n.line, r.assign(n.names, v))
	}
	of, _ := r.scope.get(n.names[0])
	ns, ok := of.(*namespace)
	if !ok {
		return at(n.line, fmt.Errorf("%s is not a namespace: cannot set an attribute", n.names[0]))
	}
	ns.vars[n.attr] = v
	return nil
}

func (n *macro) exec(r *run) error {
	r.scope.set(n.name, n.function(r.scope))
	return nil
}

// function returns a macro with the scope up.
func (n *macro) function(up *scope) function {
	return func(r *run, args []any, named *dict) (any, error) {
		return r.macroCall(func() error {
			return r.inner(up, func() error {
				if err := n.bind(r, args, named); err != nil {
					return err
				}
				return r.body(n.body)
			})
		})
	}
}

// macroCall captures the output of f, one call deeper.
func (r *run) macroCall(f func() error) (any, error) {
	if r.calls++; r.calls > maxCalls {
		return nil, fmt.Errorf("macro calls are nested more than %d levels deep", maxCalls)
	}
	s, err := r.capture(f)
	r.calls--
	return s, err
}

// bind binds a macro's parameters. Further arguments are an error, except the caller of a call tag.
func (n *macro) bind(r *run, args []any, named *dict) error {
	if len(args) > len(n.params) {
		return fmt.Errorf("macro %s takes %d arguments, not %d", n.name, len(n.params), len(args))
	}
	used := 0
	for i, p := range n.params {
		v, isNamed := named.get(p)
		switch {
		case isNamed && i < len(args):
			return fmt.Errorf("macro %s: duplicate argument %s", n.name, p)
		case isNamed:
			used++
		case i < len(args):
			v = args[i]
		case n.defaults[i] != nil:
			var err error
			if v, err = r.value(n.defaults[i]); err != nil {
				return err
			}
		default:
			v = undefined{fmt.Sprintf("parameter %s has no value", p)}
		}
		r.scope.set(p, v)
	}
	if v, ok := named.get("caller"); ok {
		r.scope.set("caller", v)
		used++
	}
	if used < len(named.keys) {
		return fmt.Errorf("macro %s: unexpected keyword argument", n.name)
	}
	return nil
}

func (n *callNode) exec(r *run) error {
	v, err := n.call.with(r, "caller", n.caller.function(r.scope))
	return r.printValue(n.line, v, err)
}

func (n *generation) exec(r *run) error {
	if r.out != &r.main {
		return at(n.line, errors.New("{% generation %} inside a macro or captured block"))
	}
	from := r.main.Len()
	err := r.inner(r.scope, func() error { return r.body(n.body) })
	r.generation = append(r.generation, [2]int{from, r.main.Len()})
	return err
}
