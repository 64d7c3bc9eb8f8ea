package tracefile

import (
	"encoding/json"

	"trireme/trace"
)

// arg is an argument of an event: a number, or a text that is not empty.
type arg struct {
	name string
	n    int64
	text string
}

// args returns the fields of a rank but its spans.
func (r *Rank) args(t *Trace) []arg {
	args := []arg{{name: argRank, n: int64(r.Rank)}, {name: argPID, n: int64(r.PID)}, {name: argOffset, n: r.ClockOffset},
		{name: argUncertainty, n: r.ClockUncertainty}, {name: argDropped, n: r.Dropped}, {name: argWall, n: t.Wall}}
	if r.Host != "" {
		args = append(args, arg{name: argHost, text: r.Host})
	}
	if r.Foreign {
		args = append(args, arg{name: argForeign, n: 1})
	}
	if len(r.Groups) > 0 {
		b, _ := json.Marshal(r.Groups) // lists of numbers
		args = append(args, arg{name: argGroups, text: string(b)})
	}
	return args
}

// set sets the field of an argument of args; others are ignored.
func (r *Rank) set(t *Trace, a arg) {
	switch a.name {
	case argRank:
		r.Rank = int(a.n)
	case argPID:
		r.PID = int(a.n)
	case argOffset:
		r.ClockOffset = a.n
	case argUncertainty:
		r.ClockUncertainty = a.n
	case argDropped:
		r.Dropped = a.n
	case argWall:
		t.Wall = a.n
	case argHost:
		r.Host = a.text
	case argForeign:
		r.Foreign = a.n != 0
	case argGroups:
		var groups map[string][]int
		if json.Unmarshal([]byte(a.text), &groups) == nil { // it only describes
			r.Groups = groups
		}
	}
}

// spanArgs returns the fields of a span that its name, category, time and track do not have.
func spanArgs(s trace.Span) []arg {
	args := make([]arg, 0, 8)
	for _, a := range []arg{{name: argStep, n: s.Step}, {name: argMicro, n: int64(s.Micro)}, {name: argSeq, n: int64(s.Seq)}, {name: argBytes, n: s.Bytes}, {name: argReady, n: s.Ready},
		{name: argUnit, text: s.Unit}, {name: argOp, text: s.Op}, {name: argAxis, text: s.Axis}} {
		if a.n != 0 || a.text != "" {
			args = append(args, a)
		}
	}
	return args
}

// setArg sets the field of an argument of spanArgs; others are ignored.
func setArg(s *trace.Span, a arg) {
	switch a.name {
	case argStep:
		s.Step = a.n
	case argMicro:
		s.Micro = int32(a.n)
	case argSeq:
		s.Seq = uint64(a.n)
	case argBytes:
		s.Bytes = a.n
	case argReady:
		s.Ready = a.n
	case argUnit:
		s.Unit = a.text
	case argOp:
		s.Op = a.text
	case argAxis:
		s.Axis = a.text
	}
}
