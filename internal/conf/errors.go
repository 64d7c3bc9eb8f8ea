package conf

import (
	"fmt"
	"strings"
)

// Problem is one thing wrong with a configuration.
type Problem struct {
	Where string // run.yaml:14, run.yaml:3:5, --set a.b=c, environment TRIREME_A_B
	Path  string // training.max_steps; empty where the problem is not one key's
	Text  string // what is wrong, with the suggestion if there is one
	Err   error  // the cause, if another package found it

	Unknown bool   // a key that the tree does not have, and none is near
	Group   string // of an Unknown key: the group that it was written in; empty at the top level
}

func (p Problem) Error() string {
	s := p.Text
	if p.Path != "" {
		s = p.Path + ": " + s
	}
	if p.Where != "" {
		s = p.Where + ": " + s
	}
	return s
}

func (p Problem) Unwrap() error { return p.Err }

// Errors is everything wrong with a configuration, in the order of the sources.
type Errors []Problem

// Error has one line a problem, up to a screenful.
func (e Errors) Error() string {
	const most = 40
	var lines []string
	for i, p := range e {
		if i == most {
			lines = append(lines, fmt.Sprintf("and %d more", len(e)-most))
			break
		}
		lines = append(lines, p.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.Is and errors.As see each problem.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, p := range e {
		errs[i] = p
	}
	return errs
}
