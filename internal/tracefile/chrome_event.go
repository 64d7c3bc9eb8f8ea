package tracefile

import (
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// event is the kept part of an event.
type event struct {
	category, name string
	pid, tid       string
	start, end     int64 // nanoseconds
	args           *eventArgs
}

// rawEvent is an event of a file. Ids are numbers or strings.
type rawEvent struct {
	Phase    string         `json:"ph"`
	Category string         `json:"cat"`
	Name     string         `json:"name"`
	PID      jsontext.Value `json:"pid"`
	TID      jsontext.Value `json:"tid"`
	Start    clock          `json:"ts"`
	Duration clock          `json:"dur"`
	Args     jsontext.Value `json:"args"`
}

// number is an integer that may be written as a string or with a fraction, which is cut.
type number int64

// UnmarshalJSON implements json.Unmarshaler. Other values are 0.
func (n *number) UnmarshalJSON(b []byte) error {
	text := id(b)
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		*n = number(i)
	} else if f, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(f) < 1<<62 {
		*n = number(f)
	}
	return nil
}

// clock is a time in microseconds as nanoseconds.
type clock int64

// UnmarshalJSON implements json.Unmarshaler. Other values are 0.
func (c *clock) UnmarshalJSON(b []byte) error {
	text := id(b)
	whole, fraction, _ := strings.Cut(text, ".")
	if len(fraction) <= 3 { // exact
		if i, err := strconv.ParseInt(whole+(fraction + "000")[:3], 10, 64); err == nil {
			*c = clock(i)
			return nil
		}
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(f) < 1<<52 {
		*c = clock(math.Round(f * 1000))
	}
	return nil
}

// eventArgs are the arguments that are kept: those of spans, and of PyTorch's collectives.
type eventArgs struct {
	Stream string `json:"stream"`
	Step   number `json:"step"`
	Micro  number `json:"micro"`
	Unit   string `json:"unit"`
	Op     string `json:"op"`
	Axis   string `json:"axis"`
	Seq    number `json:"seq"`
	Bytes  number `json:"bytes"`
	Ready  number `json:"ready_ns"`

	Collective string         `json:"Collective name"`
	Group      jsontext.Value `json:"Process Group Name"`
	GroupText  string         `json:"Process Group Description"`
	Ranks      jsontext.Value `json:"Process Group Ranks"`
	Sequence   number         `json:"Seq"`
	In         number         `json:"In msg nelems"`
	Out        number         `json:"Out msg nelems"`
	Type       string         `json:"dtype"`
}

// distributedInfo is PyTorch's field of that name.
type distributedInfo struct {
	Backend   string `json:"backend"`
	Rank      *int   `json:"rank"`
	WorldSize int    `json:"world_size"`
	Groups    []struct {
		Name  string `json:"pg_name"`
		Text  string `json:"pg_desc"`
		Ranks []int  `json:"ranks"`
	} `json:"pg_config"`
}
