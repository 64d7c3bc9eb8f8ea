package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Kinds of errors, for errors.Is.
var (
	// ErrAuth: a token or another token is needed, or access must be requested.
	ErrAuth = errors.New("not authorized")
	// ErrNotFound: no such repository, revision or file or, offline, it is not in the cache.
	ErrNotFound = errors.New("not found")
	// ErrUnreachable: no or no valid response from the server; a retry may help.
	ErrUnreachable = errors.New("unreachable")
	// ErrNoConnection is ErrUnreachable without any connection: no network, or a wrong HF_ENDPOINT.
	ErrNoConnection = fmt.Errorf("%w: no connection", ErrUnreachable)
	// ErrCorrupt: the content does not match its size or digest.
	ErrCorrupt = errors.New("corrupt")
)

// Error is the error of resolving a name to files.
type Error struct {
	Kind error  // one of the kinds above; nil: an error of this machine
	Text string // one line
	Try  string // suggestion; "": none
	Err  error  // the cause, or nil
}

func (e *Error) Error() string {
	s := "hub: " + e.Text
	if e.Try != "" {
		s += ". try: " + e.Try
	}
	return s
}

// HasTry reports whether there is a suggestion.
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

var errNoRevision = errors.New("no such revision")

// readable makes one line of a server's text, without control characters.
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

// jsonError describes an error of json.Unmarshal without Go's types.
func jsonError(err error) error {
	var t *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &t):
		return fmt.Errorf("not JSON: %s", readable(err.Error()))
	case t.Field == "":
		return fmt.Errorf("unexpected JSON %s", t.Value)
	}
	return fmt.Errorf("unexpected JSON %s as %q", t.Value, readable(t.Field))
}
