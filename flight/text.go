package flight

import (
	"fmt"
	"strings"
	"time"
)

// Name names the rank: rank 5 (n1, pid 4121).
func (s *State) Name() string { return fmt.Sprintf("rank %d (%s, pid %d)", s.Rank, s.Host, s.PID) }

// String formats the operation: reduce_scatter #1559 of 4096 float32 (layer 17).
func (o *Op) String() string {
	s := fmt.Sprintf("%s #%d", o.Kind, o.Seq)
	if o.DType != "" {
		s += fmt.Sprintf(" of %d %s", o.Count, o.DType)
	}
	if o.Tag != "" {
		s += " (" + o.Tag + ")"
	}
	return s
}

// opText formats an operation with its group.
func (s *State) opText(o *OpState) string {
	if o.Group < 0 || o.Kind == StoreGather {
		return o.String()
	}
	return o.String() + " in group " + s.Groups[o.Group].Name
}

// Activity describes what the rank did when its state was recorded: reading data.jsonl:12, in data.Next (58 s).
func (s *State) Activity() string {
	d := s.doing()
	for i := len(s.Doing) - 2; i >= 0 && d.Activity == Waiting; i-- {
		if s.open() == nil { // the operation has just ended
			d = s.Doing[i]
		}
	}
	text := ""
	switch o := s.blocked(); {
	case s.Ended:
		return fmt.Sprintf("has ended with code %d", s.Code)
	case o != nil && o.Kind == StoreGather:
		return fmt.Sprintf("waits for all ranks at %q (%s)", o.Tag, seconds(s.Alive.Sub(o.Start)))
	case o != nil:
		return fmt.Sprintf("waits in %s (%s)", s.opText(o), seconds(s.Alive.Sub(o.Start)))
	}
	switch d.Activity {
	case None:
		text = "between activities"
		d.Since = s.Progress
	case Waiting:
		text = "waiting for its communication stream"
		if d.Detail != "" {
			text += " in " + d.Detail
		}
	case Loading:
		text = "in data.Next"
		if d.Detail != "" {
			text += " reading " + d.Detail
		}
	case Forward, Backward:
		text = "computing " + d.Activity.String() + " of " + d.Detail
	case Computing:
		text = "computing"
	case Saving, LoadingWeights, Tokenizing, Evaluating, Exporting, Updating, Preparing, Joining, Compiling:
		text = d.Activity.String()
		if d.Detail != "" {
			text += " " + d.Detail
		}
	default:
		text = "in an unknown activity"
	}
	for i := len(s.Doing) - 2; i >= 0; i-- {
		if a := s.Doing[i].Activity; a == Evaluating || a == Saving || a == Exporting {
			text += ", " + a.String()
		}
	}
	return fmt.Sprintf("is %s (%s)", text, seconds(s.Alive.Sub(d.Since)))
}

// SeenPrefix begins LastSeen.
const SeenPrefix = "last state: it "

// LastSeen says what the rank did when its state was recorded: last state: it was computing forward of layer 3
// (12 ms); its last collective was ...
func (s *State) LastSeen() string {
	text := SeenPrefix + past(s.Activity())
	if op := s.LastOp(); op != "" {
		text += "; " + op
	}
	return text
}

// LastOp describes the last operation: last finished all_gather #12 ... 3.1 s before.
func (s *State) LastOp() string {
	if o := s.open(); o != nil && s.blocked() == nil {
		return fmt.Sprintf("%s is running for %s", s.opText(o), seconds(s.Alive.Sub(o.Start)))
	}
	for i := len(s.Ops) - 1; i >= 0; i-- {
		if o := &s.Ops[i]; !o.Running && o.Kind != StoreGather {
			return fmt.Sprintf("its last collective was %s, finished %s before", s.opText(o), seconds(s.Alive.Sub(o.End)))
		}
	}
	return ""
}

// seconds formats a duration: 58 s, 3.1 s, 12 ms, 4m10s.
func seconds(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 3*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// limitText formats a limit: 60 s, 0.5 s.
func limitText(d time.Duration) string { return fmt.Sprintf("%.4g s", d.Seconds()) }

// ranksText lists up to eight ranks: rank 3, ranks 1, 2 and 5, ranks 0, 1, ... and 12 more.
func ranksText(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d", ranks[0])
	}
	var b strings.Builder
	b.WriteString("ranks ")
	for i, r := range ranks {
		switch {
		case i == 8:
			fmt.Fprintf(&b, " and %d more", len(ranks)-i)
			return b.String()
		case i > 0 && i == len(ranks)-1:
			b.WriteString(" and ")
		case i > 0:
			b.WriteString(", ")
		}
		fmt.Fprint(&b, r)
	}
	return b.String()
}
