package hub

import (
	"errors"
	"fmt"
	"strings"
)

// Kinds of errors, for errors.Is.
var (
	// ErrAuth: the server wants a token, another token, or its owner's leave.
	ErrAuth = errors.New("not authorised")
	// ErrNotFound: there is no such repository, revision or file, or, offline, the cache does
	// not have it.
	ErrNotFound = errors.New("not found")
	// ErrUnreachable: the server does not answer, or not with anything of use; later it may.
	ErrUnreachable = errors.New("unreachable")
	// ErrNoConnection is ErrUnreachable where no connection comes about at all: there may be no
	// network, or HF_ENDPOINT names no server.
	ErrNoConnection = fmt.Errorf("%w: no connection", ErrUnreachable)
	// ErrCorrupt: what came is not what was announced.
	ErrCorrupt = errors.New("corrupt")
)

// Error is what keeps a name from becoming files.
type Error struct {
	Kind error  // one of the kinds above; nil for what is wrong on this machine
	Text string // what is wrong, in one line
	Try  string // what to do about it, if that is known
	Err  error  // the cause, if there is one
}

func (e *Error) Error() string {
	s := "hub: " + e.Text
	if e.Try != "" {
		s += ". try: " + e.Try
	}
	return s
}

// HasTry says whether Try is known.
func (e *Error) HasTry() bool { return e.Try != "" }

func (e *Error) Unwrap() []error {
	var errs []error
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// errNoRevision: the server has the repository, and it never was as the user says.
var errNoRevision = errors.New("no such revision")

// readable makes one line of what a server says, without anything that a terminal obeys.
func readable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + "..."
	}
	return s
}
