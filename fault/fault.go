// Package fault is the error of a mistake that a user can correct: what is wrong, the key of the
// configuration that decides it, and what to try.
//
// Packages name keys and never flags. Whoever prints an error says how the user sets a key:
//
//	err := fault.Try(fmt.Errorf("data: %s has no tokenizer", path), "%s", fault.Set("data.tokenizer", "DIR"))
//	err.Error()              // data: a.txt has no tokenizer. try: data.tokenizer=DIR
//	fault.Text(err, flags)   // data: a.txt has no tokenizer. try: --set data.tokenizer=DIR
//
// It is not for failures that nobody can correct by another input: those are ordinary errors.
package fault

import (
	"fmt"
	"slices"
	"strings"
)

// Error is a mistake. It may be used by several goroutines.
type Error struct {
	key   string
	joint string // between the key and what
	what  error
	try   string // a format; "" where nothing is known to help
	args  []any
}

// Error is the key, what is wrong and what to try, in one line. Settings are written key=value.
func (e *Error) Error() string { return e.text(Setting.String) }

// Unwrap is what is wrong, without the key.
func (e *Error) Unwrap() error { return e.what }

// Key is the key that the mistake is at, dotted and below the node whose Validate found it; "" if it
// is at no single key.
func (e *Error) Key() string { return e.key }

func (e *Error) text(say func(Setting) string) string {
	s := Text(e.what, say)
	if e.key != "" {
		s = e.key + e.joint + s
	}
	if e.try == "" {
		return s
	}
	args := make([]any, len(e.args))
	for i, a := range e.args {
		args[i] = a
		if set, ok := a.(Setting); ok {
			args[i] = say(set)
		}
	}
	return s + ". try: " + fmt.Sprintf(e.try, args...)
}

// At is a mistake at a key: At("max_steps", "is %d: it must be at least 1", n). The format is that of
// fmt.Errorf; one that begins with an error (%w) follows the key after a colon.
func At(key, format string, args ...any) error {
	joint := " "
	if strings.HasPrefix(format, "%w") {
		joint = ": "
	}
	return &Error{key: key, joint: joint, what: fmt.Errorf(format, args...)}
}

// Try adds to err what to do about it, in the format of fmt.Sprintf. Settings among args are printed
// as whoever prints the error sets them.
func Try(err error, format string, args ...any) error {
	e := &Error{what: err, try: format, args: args}
	if at, ok := err.(*Error); ok && at.try == "" {
		e.key, e.joint, e.what = at.key, at.joint, at.what
	}
	return e
}

// WithoutKey is the mistake without its key, for who names the key in front of it.
func (e *Error) WithoutKey() error {
	below := *e
	below.key = ""
	return &below
}

// HasTry says whether the mistake itself says what to try.
func (e *Error) HasTry() bool { return e.try != "" }

// HasTry says whether err, or an error that it wraps, says what to try. Other types of errors have a
// method HasTry too.
func HasTry(err error) bool {
	if e, ok := err.(interface{ HasTry() bool }); ok && e.HasTry() {
		return true
	}
	return slices.ContainsFunc(wrapped(err), HasTry)
}

// Text is err's text with every Setting as say writes it.
func Text(err error, say func(Setting) string) string {
	text := err.Error()
	for _, e := range within(err) {
		text = strings.Replace(text, e.Error(), e.text(say), 1)
	}
	return text
}

// within lists the outermost mistakes of err.
func within(err error) (list []*Error) {
	if e, ok := err.(*Error); ok {
		return []*Error{e}
	}
	for _, below := range wrapped(err) {
		list = append(list, within(below)...)
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

// Setting is what to set: a key of the configuration and a value for it.
type Setting struct{ Key, Value string }

// Ranks is the Key of the number of ranks. It is no key of the configuration, but of who starts them.
const Ranks = "ranks"

// Set is a Setting of any value.
func Set(key string, value any) Setting { return Setting{key, fmt.Sprint(value)} }

func (s Setting) String() string { return s.Key + "=" + s.Value }
