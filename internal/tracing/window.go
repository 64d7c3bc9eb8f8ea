package tracing

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Window is a range of steps to trace, and how.
type Window struct {
	First, Last int64 // of a request: 1 and the number of steps
	Chrome      bool  // write Chrome's JSON
	Perfetto    bool  // write Perfetto's format
}

// MaxSteps limits the steps of a window.
const MaxSteps = 10000

// Formats are the values of format in a window.
var Formats = []string{"perfetto", "chrome", "both"}

// ParseWindow parses steps=10-12, or steps=10 for one step, and ,format=chrome or both. A request has the number of
// steps instead: steps=3.
func ParseWindow(text string, request bool) (w Window, err error) {
	w.Perfetto = true
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch key {
		case "steps":
			if w.First, w.Last, err = parseSteps(value, request); err != nil {
				return w, err
			}
		case "format":
			switch value {
			case "perfetto":
			case "chrome":
				w.Chrome, w.Perfetto = true, false
			case "both":
				w.Chrome = true
			default:
				return w, fmt.Errorf("format is %q: it must be %s", value, strings.Join(Formats, ", "))
			}
		default:
			return w, fmt.Errorf("%q is not steps=... or format=...", part)
		}
	}
	if w.Last == 0 {
		return w, errors.New("steps is missing")
	}
	return w, nil
}

func parseSteps(value string, request bool) (first, last int64, err error) {
	from, to, ranged := strings.Cut(value, "-")
	first, err = strconv.ParseInt(from, 10, 64)
	last = first
	switch {
	case request:
		first = 1
		if ranged {
			return 0, 0, fmt.Errorf("steps is %q: a request has the number of steps", value)
		}
	case ranged && err == nil:
		last, err = strconv.ParseInt(to, 10, 64)
	}
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("steps is %q: it must be a step or a range of steps, such as 10-12", value)
	case first < 1 || last < first:
		return 0, 0, fmt.Errorf("steps is %q: steps count from 1, and the last is not below the first", value)
	case last-first >= MaxSteps:
		return 0, 0, fmt.Errorf("steps is %q: the limit is %d steps", value, MaxSteps)
	}
	return first, last, nil
}
