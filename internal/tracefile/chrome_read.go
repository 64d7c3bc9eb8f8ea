package tracefile

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"trireme/trace"
)

// ReadChrome reads a trace in Chrome's JSON: one of WriteChrome, or of PyTorch's profiler. The events are read one
// by one, and of those only what a Trace needs is kept, so files may be larger than memory. name is the file's, for
// the rank of a profile that does not say it.
func ReadChrome(r io.Reader, name string) (*Trace, error) {
	c := &chromeReader{dec: jsontext.NewDecoder(r, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)), names: map[string]string{}, begun: map[[2]string][]event{}}
	if err := c.read(); err != nil {
		var syntax *jsontext.SyntacticError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("byte %d: invalid JSON: %w", syntax.ByteOffset, syntax.Err)
		}
		return nil, err
	}
	if c.header != nil {
		return c.own()
	}
	return c.kineto(name)
}

type chromeReader struct {
	dec    *jsontext.Decoder
	header *chromeHeader
	dist   distributedInfo
	base   int64 // nanoseconds that are added to times of PyTorch's profiler
	device bool  // a kernel of a device was read: operators of the host do not count
	events []event
	begun  map[[2]string][]event // B without E, by thread
	names  map[string]string     // interned
	others int                   // events that were not kept
}

func (c *chromeReader) read() error {
	if c.dec.PeekKind() == '[' { // the format's short form
		return c.readEvents()
	}
	if t, err := c.dec.ReadToken(); err != nil {
		return err
	} else if t.Kind() != '{' {
		return errors.New("not a trace: the JSON is no object")
	}
	for c.dec.PeekKind() == '"' {
		t, err := c.dec.ReadToken()
		if err != nil {
			return err
		}
		switch key := t.String(); key {
		case "trireme":
			c.header = &chromeHeader{}
			err = c.decode(c.header)
		case "distributedInfo":
			err = c.decode(&c.dist)
		case "baseTimeNanoseconds":
			err = c.decode(&c.base)
		case "traceEvents":
			if c.dec.PeekKind() == '[' {
				err = c.readEvents()
				break
			}
			fallthrough
		default:
			err = c.dec.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	_, err := c.dec.ReadToken()
	return err
}

// decode reads a value; one of another shape counts as absent.
func (c *chromeReader) decode(to any) error {
	v, err := c.dec.ReadValue()
	if err == nil {
		_ = json.Unmarshal(v, to, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	}
	return err
}

func (c *chromeReader) readEvents() error {
	if _, err := c.dec.ReadToken(); err != nil {
		return err
	}
	for c.dec.PeekKind() == '{' {
		v, err := c.dec.ReadValue()
		if err != nil {
			return err
		}
		var e rawEvent
		if json.Unmarshal(v, &e, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) == nil {
			c.event(&e)
		}
	}
	_, err := c.dec.ReadToken()
	return err
}

// intern returns s without keeping the memory around it.
func (c *chromeReader) intern(s string) string {
	if known, ok := c.names[s]; ok {
		return known
	}
	s = strings.Clone(s)
	c.names[s] = s
	return s
}

func (c *chromeReader) event(raw *rawEvent) {
	if !c.keeps(raw) {
		c.others++
		return
	}
	const most = 1 << 61 // times stay far from the ends of int64
	start, length := int64(raw.Start), int64(raw.Duration)
	if length < 0 || length > most || start > most || start < -most {
		return
	}
	e := event{category: c.intern(raw.Category), name: c.intern(raw.Name), pid: c.intern(id(raw.PID)), tid: c.intern(id(raw.TID)), start: start, end: start + length}
	if len(raw.Args) > 0 && c.wantsArgs(raw) {
		var a eventArgs
		if json.Unmarshal(raw.Args, &a, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) == nil {
			for _, s := range []*string{&a.Stream, &a.Unit, &a.Op, &a.Axis, &a.Collective, &a.GroupText, &a.Type} {
				*s = c.intern(*s)
			}
			a.Group, a.Ranks = a.Group.Clone(), a.Ranks.Clone()
			e.args = &a
		}
	}
	thread := [2]string{e.pid, e.tid}
	switch raw.Phase {
	case "X":
		c.events = append(c.events, e)
	case "B":
		c.begun[thread] = append(c.begun[thread], e)
	case "E":
		if open := c.begun[thread]; len(open) > 0 {
			b := open[len(open)-1]
			c.begun[thread] = open[:len(open)-1]
			if b.end = e.start; b.end >= b.start {
				c.events = append(c.events, b)
			}
		}
	}
}

// keeps reports whether an event is kept. Once there is a kernel, operators of the host are not.
func (c *chromeReader) keeps(e *rawEvent) bool {
	switch e.Phase {
	case "X", "B", "E":
	default:
		return false
	}
	if c.header != nil || e.Phase == "E" {
		return true
	}
	class := classOf(e.Category, e.Name)
	if class == kernel && !c.device {
		c.device = true
		kept := c.events[:0]
		for _, o := range c.events {
			if k := classOf(o.category, o.name); k != operator {
				kept = append(kept, o)
			}
		}
		clear(c.events[len(kept):])
		c.events = kept
	}
	return class != none && (class != operator || !c.device)
}

func (c *chromeReader) wantsArgs(e *rawEvent) bool {
	return c.header != nil || collectiveOf(e.Name) != "" || e.Name == recordComms
}

// id returns an id as text.
func id(v jsontext.Value) string {
	if b, err := jsontext.AppendUnquote(nil, v); err == nil && v.Kind() == '"' {
		return string(b)
	}
	return string(v)
}

// own makes the trace of a file of WriteChrome.
func (c *chromeReader) own() (*Trace, error) {
	t := &Trace{Wall: c.header.Wall}
	ranks := map[string]*Rank{}
	for _, r := range c.header.Ranks {
		if r.Rank >= 0 {
			ranks[fmt.Sprint(r.Rank)] = &Rank{Rank: r.Rank, Host: r.Host, PID: r.PID, ClockOffset: r.Offset, ClockUncertainty: r.Uncertainty, Dropped: r.Dropped, Groups: r.Groups, Foreign: r.Foreign}
		}
	}
	for _, e := range c.events {
		kind, known := kinds[e.category]
		r := ranks[e.pid]
		if !known || r == nil {
			continue
		}
		s := trace.Span{Start: e.start, End: e.end, Kind: kind}
		if a := e.args; a != nil {
			s.Stream = streamOf(a.Stream)
			s.Step, s.Micro, s.Seq, s.Bytes, s.Ready = int64(a.Step), int32(a.Micro), uint64(a.Seq), int64(a.Bytes), int64(a.Ready)
			s.Unit, s.Op, s.Axis = a.Unit, a.Op, a.Axis
		}
		r.Spans = append(r.Spans, s)
	}
	for _, h := range c.header.Ranks {
		if r := ranks[fmt.Sprint(h.Rank)]; r != nil {
			delete(ranks, fmt.Sprint(h.Rank))
			t.Add(*r)
		}
	}
	if len(t.Ranks) == 0 {
		return nil, errors.New("no ranks of Trireme")
	}
	return t, nil
}
