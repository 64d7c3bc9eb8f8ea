package conf

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one error in a configuration.
type Problem struct {
	Where string // run.yaml:14, run.yaml:3:5, --set a.b=c, environment TRIREME_A_B
	Path  string // training.max_steps; empty if the problem is not of one key
	Text  string // message, with any suggestion
	Err   error  // cause, if any

	Unknown bool   // an unknown key without suggestion
	Group   string // group of an Unknown key; empty at the top level
}

// verbs start texts whose subject is the key, or the source if there is no key.
var verbs = []string{"is", "has", "needs", "takes"}

func (p Problem) Error() string {
	verb, _, _ := strings.Cut(p.Text, " ")
	s, sep := p.Text, ": "
	if slices.Contains(verbs, verb) {
		sep = " "
	}
	for _, subject := range []string{p.Path, p.Where} {
		if subject != "" {
			s, sep = subject+sep+s, ": "
		}
	}
	return s
}

func (p Problem) Unwrap() error { return p.Err }

// Errors lists the errors in a configuration, in the order of sources.
type Errors []Problem

// Error has one line per problem, up to 40.
func (e Errors) Error() string {
	const limit = 40
	var lines []string
	for i, p := range e {
		if i == limit {
			lines = append(lines, fmt.Sprintf("and %d more", len(e)-limit))
			break
		}
		lines = append(lines, p.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the problems for errors.Is and errors.As.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, p := range e {
		errs[i] = p
	}
	return errs
}
