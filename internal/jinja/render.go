package jinja

import (
	"errors"
	"fmt"
	"strings"
)

// Limits of a Render.
const (
	maxSteps = 4 << 20  // expressions and statements; 64 bytes of text count as one
	maxText  = 64 << 20 // bytes of one string
	maxCalls = 60       // nested macro calls
	maxRange = 100_000  // items of a range, as in Jinja2's sandbox
)

// Output is a rendered template.
type Output struct {
	Text       string
	Generation [][2]int // byte ranges of the {% generation %} blocks in Text
}

// Render renders the template. vars are its variables: nil, bool, int, int64, float64, string,
// []any, []string, ordered.Map and func(string) string. raise_exception, range, dict and namespace are predefined.
// Errors begin with "jinja: line N". raise_exception returns a *RaisedError.
func (t *Template) Render(vars map[string]any) (*Output, error) {
	r := &run{scope: &scope{vars: map[string]any{}}, steps: maxSteps, strict: t.Strict}
	r.out = &r.main
	for k, v := range globals {
		r.scope.vars[k] = v
	}
	for k, v := range vars {
		own, err := fromGo(v, 0)
		if err != nil {
			return nil, fmt.Errorf("jinja: %s: %w", k, err)
		}
		r.scope.vars[k] = own
	}
	r.scope = &scope{vars: map[string]any{}, up: r.scope}
	if err := r.body(t.body); err != nil {
		return nil, fmt.Errorf("jinja: %w", err)
	}
	return &Output{r.main.String(), r.generation}, nil
}

// RaisedError is an error of raise_exception: the template rejects the conversation.
type RaisedError struct{ Message string }

func (e *RaisedError) Error() string { return e.Message }

type run struct {
	scope      *scope
	main       strings.Builder
	out        *strings.Builder // main, or the buffer of a macro or captured block
	generation [][2]int
	steps      int
	depth      int // of nested expressions
	calls      int // of nested macros
	strict     bool
}

// scope is a scope of variables: of a loop iteration, a macro or the template.
type scope struct {
	vars map[string]any
	up   *scope
}

func (s *scope) get(name string) (any, bool) {
	for ; s != nil; s = s.up {
		if v, ok := s.vars[name]; ok {
			return v, true
		}
	}
	return nil, false
}

func (s *scope) set(name string, v any) {
	if s.vars == nil {
		s.vars = map[string]any{}
	}
	s.vars[name] = v
}

// inner runs f in a new scope below up.
func (r *run) inner(up *scope, f func() error) error {
	before := r.scope
	r.scope = &scope{up: up}
	err := f()
	r.scope = before
	return err
}

var errSteps = errors.New("the template exceeds the step limit")

func (r *run) spend(n int) error {
	if r.steps -= n; r.steps < 0 {
		return errSteps
	}
	return nil
}

// spendText counts the bytes of a string to be built.
func (r *run) spendText(n int) error {
	if n > maxText {
		return fmt.Errorf("a string exceeds %d MiB", maxText>>20)
	}
	return r.spend(n / 64)
}

// spendItems counts the items of a list to be built.
func (r *run) spendItems(n int) error { return r.spend(n) }

func (r *run) print(s string) error {
	if r.out.Len()+len(s) > maxText {
		return fmt.Errorf("the output exceeds %d MiB", maxText>>20)
	}
	if err := r.spendText(len(s)); err != nil {
		return err
	}
	r.out.WriteString(s)
	return nil
}

// capture runs f and returns its output.
func (r *run) capture(f func() error) (string, error) {
	before := r.out
	r.out = &strings.Builder{}
	err := f()
	s := r.out.String()
	r.out = before
	return s, err
}

func (r *run) value(e expr) (any, error) {
	if err := r.spend(1); err != nil {
		return nil, err
	}
	if r.depth++; r.depth > 10*maxNesting*maxCalls {
		return nil, errors.New("expressions are nested too deeply")
	}
	v, err := e.eval(r)
	r.depth--
	if u, ok := v.(undefined); ok && err == nil && r.strict {
		err = u.use()
	}
	return v, err
}

// lineError is an error with its line, the innermost one.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// at adds a line to an error without one.
func at(line int, err error) error {
	if err == nil {
		return nil
	}
	var known *lineError
	if errors.As(err, &known) || errors.Is(err, errBreak) || errors.Is(err, errContinue) {
		return err
	}
	return &lineError{line, err}
}
