package jinja

import (
	"errors"
	"fmt"
	"strings"
)

// The bounds of one Render.
const (
	maxSteps = 4 << 20  // expressions and statements run; 64 bytes of text count as one
	maxText  = 64 << 20 // bytes of one string
	maxCalls = 60       // macros that are being run
	maxRange = 100_000  // numbers of a range, as in Jinja2's sandbox
)

// Output is what a template made of a conversation.
type Output struct {
	Text       string
	Generation [][2]int // parts of Text between generation marks: bytes from, to
}

// Render runs the template. The names of vars are what it may speak of: nil, bool, int,
// int64, float64, string, []any, Map and func(string) string. raise_exception, range, dict and namespace are there
// always. Errors begin with "jinja: line N"; what the template raises itself is a *Raised.
func (t *Template) Render(vars map[string]any) (*Output, error) {
	r := &run{scope: &scope{vars: map[string]any{}}, steps: maxSteps}
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

// RaisedError is what a template says with raise_exception: a conversation that it does not take.
type RaisedError struct{ Message string }

func (e *RaisedError) Error() string { return e.Message }

// run is one Render.
type run struct {
	scope      *scope
	main       strings.Builder
	out        *strings.Builder // main, or what a macro or a block is captured in
	generation [][2]int
	steps      int
	depth      int // of expressions
	calls      int // of macros
}

// scope holds names. A loop's turn, a macro and a with have one of their own.
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

// inner runs f in a scope of its own below up.
func (r *run) inner(up *scope, f func() error) error {
	before := r.scope
	r.scope = &scope{up: up}
	err := f()
	r.scope = before
	return err
}

var errSteps = errors.New("the template takes too many steps")

// spend counts steps.
func (r *run) spend(n int) error {
	if r.steps -= n; r.steps < 0 {
		return errSteps
	}
	return nil
}

// spendText counts the bytes of a string that is about to be made.
func (r *run) spendText(n int) error {
	if n > maxText {
		return fmt.Errorf("a string of more than %d MiB", maxText>>20)
	}
	return r.spend(n / 64)
}

// spendItems counts the items of a list that is about to be made.
func (r *run) spendItems(n int) error { return r.spend(n) }

func (r *run) print(s string) error {
	if r.out.Len()+len(s) > maxText {
		return fmt.Errorf("more than %d MiB of text", maxText>>20)
	}
	if err := r.spendText(len(s)); err != nil {
		return err
	}
	r.out.WriteString(s)
	return nil
}

// capture runs f and gives what it prints.
func (r *run) capture(f func() error) (string, error) {
	before := r.out
	r.out = &strings.Builder{}
	err := f()
	s := r.out.String()
	r.out = before
	return s, err
}

// value is what e is worth.
func (r *run) value(e expr) (any, error) {
	if err := r.spend(1); err != nil {
		return nil, err
	}
	if r.depth++; r.depth > 10*maxNesting*maxCalls {
		return nil, errors.New("expressions are nested too deep")
	}
	v, err := e.eval(r)
	r.depth--
	return v, err
}

// lineError is an error that knows its line; the innermost line stays.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// at adds a line to an error that has none.
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
