// Package fault has errors for invalid input that the user can correct. They name the configuration
// key, and advise what to try.
//
// Packages name keys, not flags. The printer of an error formats settings for its user:
//
//	err := fault.Try(fmt.Errorf("data: %s has no tokenizer", path), "%s", fault.Set("data.tokenizer", "DIR"))
//	err.Error()              // data: a.txt has no tokenizer. try: data.tokenizer=DIR
//	fault.Text(err, flags)   // data: a.txt has no tokenizer. try: --set data.tokenizer=DIR
//
// Failures that no other input avoids are ordinary errors.
package fault

import (
	"fmt"
	"slices"
	"strings"
)

// Error is an error of the user's input. It is safe for concurrent use.
type Error struct {
	key  string
	sep  string // between key and what
	what error
	try  string // format; "" for none
	args []any
}

// Error is the key, the error and what to try, in one line. Settings are formatted as key=value.
func (e *Error) Error() string { return e.text(Setting.String) }

// Unwrap returns the error without key and advice.
func (e *Error) Unwrap() error { return e.what }

// Key is the dotted key, relative to the node whose Validate returned the error; "" for none.
func (e *Error) Key() string { return e.key }

func (e *Error) text(format func(Setting) string) string {
	s := Text(e.what, format)
	if e.key != "" {
		s = e.key + e.sep + s
	}
	if e.try == "" {
		return s
	}
	args := make([]any, len(e.args))
	for i, a := range e.args {
		args[i] = a
		if set, ok := a.(Setting); ok {
			args[i] = format(set)
		}
	}
	return s + ". try: " + fmt.Sprintf(e.try, args...)
}

// At returns an error at a key: At("max_steps", "is %d: it must be at least 1", n). format is as in
// fmt.Errorf. If it starts with %w, a colon follows the key.
func At(key, format string, args ...any) error {
	sep := " "
	if strings.HasPrefix(format, "%w") {
		sep = ": "
	}
	return &Error{key: key, sep: sep, what: fmt.Errorf(format, args...)}
}

// Try adds advice to err, formatted as in fmt.Sprintf. The printer formats Settings among args.
func Try(err error, format string, args ...any) error {
	e := &Error{what: err, try: format, args: args}
	if at, ok := err.(*Error); ok && at.try == "" {
		e.key, e.sep, e.what = at.key, at.sep, at.what
	}
	return e
}

// WithoutKey returns the error without its key, for callers that print a full key.
func (e *Error) WithoutKey() error {
	below := *e
	below.key = ""
	return &below
}

// HasTry reports whether the error itself has advice.
func (e *Error) HasTry() bool { return e.try != "" }

// HasTry reports whether err or an error that it wraps has advice. Error types of other packages
// may implement HasTry too.
func HasTry(err error) bool {
	if e, ok := err.(interface{ HasTry() bool }); ok && e.HasTry() {
		return true
	}
	return slices.ContainsFunc(wrapped(err), HasTry)
}

// Text formats err with each Setting by format.
func Text(err error, format func(Setting) string) string {
	text := err.Error()
	for _, e := range outermost(err) {
		text = strings.Replace(text, e.Error(), e.text(format), 1)
	}
	return text
}

// outermost lists the outermost *Errors in err.
func outermost(err error) (list []*Error) {
	if e, ok := err.(*Error); ok {
		return []*Error{e}
	}
	for _, below := range wrapped(err) {
		list = append(list, outermost(below)...)
	}
	return list
}

func wrapped(err error) []error {
	switch err := err.(type) {
	case interface{ Unwrap() []error }:
		return err.Unwrap()
	case interface{ Unwrap() error }:
		if below := err.Unwrap(); below != nil {
			return []error{below}
		}
	}
	return nil
}

// Setting is a configuration key and the value to set.
type Setting struct{ Key, Value string }

// Ranks is the Key of the number of ranks, which is set by the launcher, not the configuration.
const Ranks = "ranks"

// Set returns a Setting.
func Set(key string, value any) Setting { return Setting{key, fmt.Sprint(value)} }

func (s Setting) String() string { return s.Key + "=" + s.Value }
