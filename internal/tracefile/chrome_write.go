package tracefile

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"trireme/trace"
)

// chromeHeader is the field "trireme" of a file in Chrome's format.
type chromeHeader struct {
	Version int          `json:"version"`
	Wall    int64        `json:"wall_ns"` // Unix time at time 0
	Ranks   []chromeRank `json:"ranks"`
}

type chromeRank struct {
	Rank        int              `json:"rank"`
	Host        string           `json:"host,omitempty"`
	PID         int              `json:"pid,omitempty"`
	Offset      int64            `json:"clock_offset_ns"`
	Uncertainty int64            `json:"clock_uncertainty_ns"`
	Dropped     int64            `json:"dropped_spans"`
	Groups      map[string][]int `json:"groups,omitempty"`
	Foreign     bool             `json:"foreign,omitempty"`
}

// WriteChrome writes t as the JSON of Chrome's trace viewer, which torch.profiler's export_chrome_trace writes too:
// a process for each rank, a thread for each stream, with the fields and arrows of WritePerfetto.
func (t *Trace) WriteChrome(w io.Writer) error {
	c := &chromeWriter{w: bufio.NewWriterSize(w, 1<<16)}
	h := chromeHeader{Version: 1, Wall: t.Wall}
	for _, r := range t.Ranks {
		h.Ranks = append(h.Ranks, chromeRank{r.Rank, r.Host, r.PID, r.ClockOffset, r.ClockUncertainty, r.Dropped, r.Groups, r.Foreign})
	}
	header, err := json.Marshal(h)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.w, "{\"displayTimeUnit\":\"ms\",\"trireme\":%s,\"traceEvents\":[", header)
	arrows := t.arrows()
	for r := range t.Ranks {
		c.rank(&t.Ranks[r], arrows[r])
	}
	c.w.WriteString("\n]}\n")
	return c.w.Flush() // the first error of a write
}

type chromeWriter struct {
	w     *bufio.Writer
	wrote bool
}

// micros writes nanoseconds as microseconds.
func micros(ns int64) json.Number {
	return json.Number(strconv.FormatInt(ns/1000, 10) + fmt.Sprintf(".%03d", max(ns%1000, -(ns%1000))))
}

// chromeEvent is an event of the format; https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
type chromeEvent struct {
	Phase    string      `json:"ph"`
	Category string      `json:"cat,omitempty"`
	Name     string      `json:"name"`
	PID      int         `json:"pid"`
	TID      int         `json:"tid"`
	Start    json.Number `json:"ts,omitempty"`
	Duration json.Number `json:"dur,omitempty"`
	ID       uint64      `json:"id,omitempty"`
	Bind     string      `json:"bp,omitempty"` // e: the arrow ends at the slice around it
	Args     any         `json:"args,omitempty"`
}

func (c *chromeWriter) event(e chromeEvent) {
	if c.wrote {
		c.w.WriteByte(',')
	}
	c.wrote = true
	c.w.WriteByte('\n')
	b, _ := json.Marshal(e) // numbers and strings
	c.w.Write(b)
}

func (c *chromeWriter) rank(r *Rank, arrows map[int]arrow) {
	meta := func(tid int, what string, args any) {
		c.event(chromeEvent{Phase: "M", Name: what, PID: r.Rank, TID: tid, Args: args})
	}
	meta(0, "process_name", map[string]any{"name": r.Name()})
	meta(0, "process_sort_index", map[string]any{"sort_index": r.Rank})
	tid := 0
	for s := trace.Stream(0); s.String() != "unknown"; s++ {
		for l, spans := range tracksOf(r.Spans, s) {
			tid++
			meta(tid, "thread_name", map[string]any{"name": trackLabel(s, l)})
			meta(tid, "thread_sort_index", map[string]any{"sort_index": tid})
			for _, i := range spans {
				c.span(r, tid, r.Spans[i], arrows[i])
			}
		}
	}
}

func (c *chromeWriter) span(r *Rank, tid int, s trace.Span, a arrow) {
	args := map[string]any{"stream": s.Stream.String()}
	for _, v := range spanArgs(s) {
		if v.text != "" {
			args[v.name] = v.text
		} else {
			args[v.name] = v.n
		}
	}
	e := chromeEvent{Phase: "X", Category: s.Kind.String(), Name: Name(s), PID: r.Rank, TID: tid, Start: micros(s.Start), Duration: micros(s.End - s.Start), Args: args}
	c.event(e)
	flow := chromeEvent{Category: "arrow", Name: "last arrival", PID: r.Rank, TID: tid, ID: a.from}
	if a.from != 0 {
		flow.Phase, flow.Start = "s", micros(s.Start)
		c.event(flow)
	}
	if a.to != 0 {
		c.event(chromeEvent{Phase: "X", Category: categoryHeld, Name: fmt.Sprintf("waits for rank %d", a.rank), PID: r.Rank, TID: tid, Start: micros(s.Start), Duration: micros(a.at - s.Start)})
		flow.Phase, flow.Start, flow.ID, flow.Bind = "f", micros(a.at), a.to, "e"
		c.event(flow)
	}
}
