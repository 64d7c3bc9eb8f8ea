package tracefile

import (
	"bufio"
	"fmt"
	"io"

	"trireme/trace"
)

// sequence is the id of the one packet sequence that is written.
const sequence = 1

// WritePerfetto writes t in Perfetto's format: a process for each rank, a track for each stream. Debug annotations
// have the spans' fields, and flows lead from the rank that reached a collective last to those that waited for it.
func (t *Trace) WritePerfetto(w io.Writer) error {
	p := &perfettoWriter{w: bufio.NewWriterSize(w, 1<<16), ids: [4]map[string]uint64{{}, {}, {}, {}}}
	p.start(t)
	arrows := t.arrows()
	for r := range t.Ranks {
		p.rank(t, r, arrows[r])
	}
	if p.err == nil {
		p.err = p.w.Flush()
	}
	return p.err
}

type perfettoWriter struct {
	w   *bufio.Writer
	err error
	// ids has the interned strings of each of the fields internedFields.
	ids      [4]map[string]uint64
	interned []byte // that the next packet defines
	event    []byte // reused
}

var internedFields = [4]int{internedCategory, internedName, internedAnnotation, internedString}

// Indexes of internedFields.
const (
	internCategory = iota
	internName
	internAnnotation
	internString
)

// id interns a string.
func (p *perfettoWriter) id(of int, s string) uint64 {
	id, ok := p.ids[of][s]
	if !ok {
		id = uint64(len(p.ids[of]) + 1)
		p.ids[of][s] = id
		p.interned = appendMessage(p.interned, internedFields[of], func(b []byte) []byte {
			return appendString(appendUint(b, internedID, id), internedText, s)
		})
	}
	return id
}

// packet writes a packet with a body.
func (p *perfettoWriter) packet(body []byte, flags uint64) {
	if p.err != nil {
		return
	}
	if len(p.interned) > 0 {
		body = appendString(body, packetInterned, string(p.interned))
		p.interned = p.interned[:0]
	}
	body = appendUint(appendUint(body, packetSequence, sequence), packetSequenceFlags, flags)
	_, p.err = p.w.Write(appendString(nil, tracePacket, string(body)))
}

// start writes the clocks.
func (p *perfettoWriter) start(t *Trace) {
	defaults := appendMessage(nil, packetDefaults, func(b []byte) []byte { return appendUint(b, defaultsClock, clockMonotonic) })
	p.packet(defaults, sequenceCleared)
	if t.Wall == 0 {
		return
	}
	at, _ := t.bounds()
	p.packet(appendMessage(nil, packetClockSnapshot, func(b []byte) []byte {
		for _, c := range [][2]uint64{{clockMonotonic, uint64(at)}, {clockRealtime, uint64(at + t.Wall)}} {
			b = appendMessage(b, snapshotClock, func(b []byte) []byte { return appendUint(appendUint(b, clockID, c[0]), clockTime, c[1]) })
		}
		return appendUint(b, snapshotPrimary, clockMonotonic)
	}), sequenceNeeds)
}

// bounds returns the first start and the last end.
func (t *Trace) bounds() (first, last int64) {
	started := false
	for _, r := range t.Ranks {
		for _, s := range r.Spans {
			if !started {
				first, last, started = s.Start, s.End, true
			}
			first, last = min(first, s.Start), max(last, s.End)
		}
	}
	return first, last
}

// rank writes the tracks and spans of rank r.
func (p *perfettoWriter) rank(t *Trace, r int, arrows map[int]arrow) {
	k := &t.Ranks[r]
	process := uint64(k.Rank+1) << 16
	p.packet(appendMessage(nil, packetTrack, func(b []byte) []byte {
		b = appendUint(b, trackUUID, process)
		b = appendMessage(b, trackProcess, func(b []byte) []byte {
			b = appendUint(b, processPID, uint64(k.Rank+1)) // process ids of several hosts may be equal
			b = appendUint(b, processSort, uint64(k.Rank))
			return appendString(b, processName, k.Name())
		})
		return appendUint(b, trackOrder, orderExplicit)
	}), sequenceNeeds)
	first, _ := t.bounds()
	p.begin(eventInstant, process, categoryRank, k.Name())
	for _, a := range k.args(t) {
		p.annotate(a)
	}
	p.end(first)
	n := uint64(0)
	for s := trace.Stream(0); s.String() != "unknown"; s++ {
		for l, spans := range tracksOf(k.Spans, s) {
			n++
			track := process + n
			p.packet(appendMessage(nil, packetTrack, func(b []byte) []byte {
				b = appendUint(appendUint(b, trackUUID, track), trackParent, process)
				return appendUint(appendString(b, trackName, trackLabel(s, l)), trackRank, n)
			}), sequenceNeeds)
			p.track(k.Spans, spans, track, arrows)
		}
	}
}

// track writes the spans of one track.
func (p *perfettoWriter) track(spans []trace.Span, of []int, track uint64, arrows map[int]arrow) {
	var open []int64 // ends
	closeUntil := func(at int64) {
		for n := len(open); n > 0 && open[n-1] <= at; n = len(open) {
			p.close(track, open[n-1])
			open = open[:n-1]
		}
	}
	for _, i := range of {
		s := spans[i]
		closeUntil(s.Start)
		p.begin(eventBegin, track, s.Kind.String(), Name(s))
		for _, a := range spanArgs(s) {
			p.annotate(a)
		}
		a := arrows[i]
		if a.from != 0 {
			p.event = appendFixed64(p.event, eventFlow, a.from)
		}
		p.end(s.Start)
		if a.to != 0 {
			p.begin(eventBegin, track, categoryHeld, fmt.Sprintf("waits for rank %d", a.rank))
			p.end(s.Start)
			p.close(track, a.at)
			p.begin(eventBegin, track, categoryHeld, "transfer")
			p.event = appendFixed64(p.event, eventLastFlow, a.to)
			p.end(a.at)
			p.close(track, s.End)
		}
		open = append(open, s.End)
	}
	for n := len(open) - 1; n >= 0; n-- {
		p.close(track, open[n])
	}
}

func (p *perfettoWriter) begin(kind, track uint64, category, name string) {
	p.event = appendUint(appendUint(p.event[:0], eventType, kind), eventTrack, track)
	p.event = appendUint(p.event, eventCategory, p.id(internCategory, category))
	p.event = appendUint(p.event, eventName, p.id(internName, name))
}

func (p *perfettoWriter) annotate(a arg) {
	p.event = appendMessage(p.event, eventAnnotation, func(b []byte) []byte {
		b = appendUint(b, annotationName, p.id(internAnnotation, a.name))
		if a.text != "" {
			return appendUint(b, annotationString, p.id(internString, a.text))
		}
		return appendUint(b, annotationInt, uint64(a.n))
	})
}

func (p *perfettoWriter) end(at int64) {
	body := appendUint(nil, packetTimestamp, uint64(at))
	p.packet(appendString(body, packetTrackEvent, string(p.event)), sequenceNeeds)
}

func (p *perfettoWriter) close(track uint64, at int64) {
	p.event = appendUint(appendUint(p.event[:0], eventType, eventEnd), eventTrack, track)
	p.end(at)
}

// arrow is a span's part in an arrow: from it (an id), or to its part after the last arrival.
type arrow struct {
	from, to uint64
	at       int64 // of the last arrival
	rank     int   // that arrived last
}

// arrows returns the arrows of each rank's spans, by index.
func (t *Trace) arrows() []map[int]arrow {
	all := make([]map[int]arrow, len(t.Ranks))
	for r := range all {
		all[r] = map[int]arrow{}
	}
	for n, c := range t.Collectives() {
		last := c.Members[c.Last]
		id := uint64(n + 1)
		for i, m := range c.Members {
			if until, ok := c.Holds(t, i); ok {
				at := min(until+1, t.Ranks[m.Rank].Spans[m.Span].End) // an arrow leads forward in time
				all[m.Rank][m.Span] = arrow{to: id, at: at, rank: t.Ranks[last.Rank].Rank}
				all[last.Rank][last.Span] = arrow{from: id}
			}
		}
	}
	return all
}
