package tracefile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"trireme/trace"
)

// maxPacket limits the bytes of one packet of a file.
const maxPacket = 64 << 20

// ReadPerfetto reads a trace that WritePerfetto has written. Packets of other programs are ignored.
func ReadPerfetto(r io.Reader) (*Trace, error) {
	p := &perfettoReader{t: &Trace{}, sequences: map[uint64]*sequenceState{}, tracks: map[uint64]*track{}}
	in := bufio.NewReaderSize(r, 1<<16)
	var at int64
	var buf []byte
	for {
		tag, err := binary.ReadUvarint(in)
		if err == io.EOF {
			break
		}
		var size uint64
		if err == nil {
			size, err = binary.ReadUvarint(in)
		}
		switch {
		case err != nil:
			return nil, cutOff(at, err)
		case tag != tracePacket<<3|wireBytes || size > maxPacket:
			return nil, fmt.Errorf("byte %d: not a trace in Perfetto's format", at)
		}
		if buf, err = readBytes(in, buf[:0], int(size)); err != nil {
			return nil, cutOff(at, err)
		}
		if err := p.packet(buf); err != nil {
			return nil, fmt.Errorf("packet at byte %d: %w", at, err)
		}
		at += int64(size) + int64(len(binary.AppendUvarint(nil, size))) + 1
	}
	return p.finish()
}

func cutOff(at int64, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("byte %d: the file ends within a packet", at)
	}
	return err
}

// readBytes appends n bytes of r to b. It allocates as it reads, since n may be wrong.
func readBytes(r io.Reader, b []byte, n int) ([]byte, error) {
	for n > 0 {
		step := min(n, 1<<20)
		at := len(b)
		b = append(b, make([]byte, step)...)
		if _, err := io.ReadFull(r, b[at:]); err != nil {
			return b, err
		}
		n -= step
	}
	return b, nil
}

// sequenceState is the interned strings of a packet sequence, by field and id.
type sequenceState struct{ strings [4]map[uint64]string }

// track is one track of a file. Spans are open, oldest first.
type track struct {
	parent  uint64
	stream  trace.Stream
	process bool
	known   bool // rank has its fields
	rank    Rank
	open    []openSpan
}

type openSpan struct {
	trace.Span
	ignored bool
}

type perfettoReader struct {
	t         *Trace
	sequences map[uint64]*sequenceState
	tracks    map[uint64]*track
	order     []uint64 // of processes
}

func (p *perfettoReader) packet(b []byte) error {
	var interned, event, descriptor []byte
	var at, seq, flags uint64
	if err := eachField(b, func(f field) error {
		switch f.number {
		case packetTimestamp:
			at = f.n
		case packetSequence:
			seq = f.n
		case packetSequenceFlags:
			flags = f.n
		case packetInterned:
			interned = f.b
		case packetTrackEvent:
			event = f.b
		case packetTrack:
			descriptor = f.b
		}
		return nil
	}); err != nil {
		return err
	}
	s := p.sequences[seq]
	if s == nil || flags&sequenceCleared != 0 {
		s = &sequenceState{}
		p.sequences[seq] = s
	}
	if err := s.intern(interned); err != nil {
		return err
	}
	if descriptor != nil {
		if err := p.descriptor(descriptor); err != nil {
			return err
		}
	}
	if event == nil {
		return nil
	}
	return p.event(s, int64(at), event)
}

func (s *sequenceState) intern(b []byte) error {
	return eachField(b, func(f field) error {
		for i, number := range internedFields {
			if f.number != number {
				continue
			}
			var id uint64
			var text string
			if err := eachField(f.b, func(f field) error {
				switch f.number {
				case internedID:
					id = f.n
				case internedText:
					text = string(f.b)
				}
				return nil
			}); err != nil {
				return err
			}
			if s.strings[i] == nil {
				s.strings[i] = map[uint64]string{}
			}
			s.strings[i][id] = text
		}
		return nil
	})
}

func (p *perfettoReader) descriptor(b []byte) error {
	var uuid uint64
	var name string
	d := &track{}
	if err := eachField(b, func(f field) error {
		switch f.number {
		case trackUUID:
			uuid = f.n
		case trackParent:
			d.parent = f.n
		case trackName:
			name = string(f.b)
		case trackProcess:
			d.process = true
		}
		return nil
	}); err != nil {
		return err
	}
	d.stream = streamOf(name)
	if p.tracks[uuid] != nil {
		return nil // descriptors may be repeated
	}
	p.tracks[uuid] = d
	if d.process {
		d.rank.Rank = len(p.order)
		p.order = append(p.order, uuid)
	}
	return nil
}

// streamOf returns the stream of a trackLabel.
func streamOf(name string) trace.Stream {
	for n, s := range streams {
		if len(name) >= len(n) && name[:len(n)] == n {
			return s
		}
	}
	return trace.Compute
}

func (p *perfettoReader) event(s *sequenceState, at int64, b []byte) error {
	var kind, on uint64
	var category string
	var args []arg
	if err := eachField(b, func(f field) error {
		switch f.number {
		case eventType:
			kind = f.n
		case eventTrack:
			on = f.n
		case eventCategory:
			category = s.strings[internCategory][f.n]
		case eventAnnotation:
			a, err := s.annotation(f.b)
			args = append(args, a)
			return err
		}
		return nil
	}); err != nil {
		return err
	}
	d := p.tracks[on]
	if d == nil {
		return nil
	}
	switch kind {
	case eventInstant:
		if d.process && category == categoryRank {
			d.known = true
			for _, a := range args {
				d.rank.set(p.t, a)
			}
		}
	case eventBegin:
		o := openSpan{Span: trace.Span{Start: at, Stream: d.stream}}
		if k, ok := kinds[category]; ok {
			o.Kind = k
		} else {
			o.ignored = true
		}
		for _, a := range args {
			setArg(&o.Span, a)
		}
		d.open = append(d.open, o)
	case eventEnd:
		n := len(d.open) - 1
		if n < 0 {
			return nil
		}
		o := d.open[n]
		d.open = d.open[:n]
		o.End = at
		if process := p.tracks[d.parent]; process != nil && !o.ignored && o.End >= o.Start {
			process.rank.Spans = append(process.rank.Spans, o.Span)
		}
	}
	return nil
}

func (s *sequenceState) annotation(b []byte) (a arg, err error) {
	err = eachField(b, func(f field) error {
		switch f.number {
		case annotationName:
			a.name = s.strings[internAnnotation][f.n]
		case annotationUint, annotationInt:
			a.n = int64(f.n)
		case annotationText:
			a.text = string(f.b)
		case annotationString:
			a.text = s.strings[internString][f.n]
		}
		return nil
	})
	return a, err
}

func (p *perfettoReader) finish() (*Trace, error) {
	for _, uuid := range p.order {
		if d := p.tracks[uuid]; d.known && d.rank.Rank >= 0 {
			p.t.Add(d.rank)
		}
	}
	if len(p.t.Ranks) == 0 {
		return nil, errors.New("no ranks of Trireme")
	}
	return p.t, nil
}
