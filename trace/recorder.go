package trace

import (
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"
)

// Recorder keeps the last spans of a rank. All methods may be called concurrently.
type Recorder struct {
	ring  atomic.Pointer[ring]
	at    atomic.Uint64 // the current step << 32 and micro-batch
	names names
}

// DefaultSpans is the number of spans that a Recorder keeps unless New or Reserve says more.
const DefaultSpans = 1 << 14

// New returns a Recorder of the last spans; 0 is DefaultSpans.
func New(spans int) *Recorder {
	r := &Recorder{}
	r.names.byID.Store(&[]string{""})
	r.names.ids.Store(&map[string]uint32{"": 0})
	r.ring.Store(newRing(max(spans, DefaultSpans)))
	return r
}

// Reserve makes the Recorder keep at least the given number of spans. It drops those recorded before if it has to grow.
func (r *Recorder) Reserve(spans int) {
	if r != nil && spans > len(r.ring.Load().slots) {
		r.ring.Store(newRing(spans))
	}
}

// SetStep sets the step of the spans that begin from now on, with micro-batch 0.
func (r *Recorder) SetStep(step int64) {
	if r != nil {
		r.at.Store(uint64(step) << 32)
	}
}

// SetMicro sets the micro-batch of the spans that begin from now on.
func (r *Recorder) SetMicro(micro int) {
	if r != nil {
		r.at.Store(r.at.Load()&^0xffffffff | uint64(uint32(micro)))
	}
}

// Mark is a span that has begun. Before End, its caller may set the fields that are not known at Begin, such as Ready.
type Mark struct{ Span }

// Begin starts a span: it sets Start, and Step and Micro to the current ones.
func (r *Recorder) Begin(s Span) Mark {
	if r == nil {
		return Mark{}
	}
	at := r.at.Load()
	s.Start, s.Step, s.Micro = Now(), int64(at>>32), int32(uint32(at))
	return Mark{s}
}

// End ends a span and records it.
func (r *Recorder) End(m Mark) {
	if r != nil {
		m.Span.End = Now()
		r.Add(m.Span)
	}
}

// Add records a span as it is.
func (r *Recorder) Add(s Span) {
	if r == nil {
		return
	}
	unit, axis, op := r.names.id(s.Unit), r.names.id(s.Axis), r.names.id(s.Op)
	ring := r.ring.Load()
	n := ring.begun.Add(1) - 1
	w := &ring.slots[n&ring.mask]
	before := w[sVersion].Load()
	if before%2 == 1 || before > 2*n || !w[sVersion].CompareAndSwap(before, 2*n+1) {
		return // a whole ring of spans was recorded while another goroutine writes this slot: drop this one
	}
	w[sStart].Store(uint64(s.Start))
	w[sEnd].Store(uint64(s.End))
	w[sStep].Store(uint64(s.Step)<<32 | uint64(uint32(s.Micro)))
	w[sNames].Store(uint64(s.Stream)<<56 | uint64(s.Kind)<<48 | uint64(unit)<<24 | uint64(axis)<<12 | uint64(op))
	if s.Ready|s.Bytes|int64(s.Seq) != 0 || w[sReady].Load()|w[sSeq].Load()|w[sBytes].Load() != 0 {
		w[sReady].Store(uint64(s.Ready))
		w[sSeq].Store(s.Seq)
		w[sBytes].Store(uint64(s.Bytes))
	}
	w[sVersion].Store(2*n + 2)
}

// Cursor is a position among all spans of a Recorder.
type Cursor struct {
	ring *ring
	n    uint64
}

// Since returns the spans recorded since a cursor, in the order in which they ended, and the cursor after them.
// The zero Cursor is the oldest span. lost counts those that later ones have replaced.
func (r *Recorder) Since(c Cursor) (spans []Span, next Cursor, lost int64) {
	return r.AppendSince(nil, c)
}

// AppendSince is Since with a buffer that it appends to.
func (r *Recorder) AppendSince(b []Span, c Cursor) (spans []Span, next Cursor, lost int64) {
	if r == nil {
		return b, c, 0
	}
	ring := r.ring.Load()
	if c.ring != ring {
		c = Cursor{ring: ring}
	}
	all := *r.names.byID.Load()
	end := ring.begun.Load()
	for ; c.n < end; c.n++ {
		if end-c.n > uint64(len(ring.slots)) {
			skip := end - c.n - uint64(len(ring.slots))
			c.n += skip
			lost += int64(skip)
		}
		s, state := ring.read(c.n, &all, r)
		if state == unfinished && end-c.n <= maxWriters {
			break
		}
		if state != complete {
			lost++
			continue
		}
		b = append(b, s)
	}
	return b, c, lost
}

// Steps returns the kept spans of steps first to last.
func (r *Recorder) Steps(first, last int64) []Span {
	all, _, _ := r.Since(Cursor{})
	spans := all[:0]
	for _, s := range all {
		if first <= s.Step && s.Step <= last {
			spans = append(spans, s)
		}
	}
	return spans
}

// maxWriters is above the number of goroutines that record at the same time: an older span that is not complete was
// dropped.
const maxWriters = 64

// The words of a slot. The version is 2n+1 while span n is written and 2n+2 afterwards.
const (
	sVersion = iota
	sStart
	sEnd
	sStep
	sNames // stream, kind (8 bits each), unit (24), axis, op (12 each)
	sReady
	sSeq
	sBytes
	slotWords
)

type ring struct {
	begun atomic.Uint64 // spans, ever
	mask  uint64
	slots [][slotWords]atomic.Uint64
}

func newRing(spans int) *ring {
	n := 1 << bits.Len(uint(spans-1))
	return &ring{mask: uint64(n - 1), slots: make([][slotWords]atomic.Uint64, n)}
}

type slotState uint8

const (
	complete slotState = iota
	unfinished
	replaced
)

// read returns span n. names are the known names; it reads them again if the span has a newer one.
func (g *ring) read(n uint64, names *[]string, r *Recorder) (s Span, state slotState) {
	w := &g.slots[n&g.mask]
	before := w[sVersion].Load()
	at, ids := w[sStep].Load(), w[sNames].Load()
	s = Span{
		Start: int64(w[sStart].Load()), End: int64(w[sEnd].Load()), Ready: int64(w[sReady].Load()), Step: int64(at >> 32), Micro: int32(uint32(at)),
		Stream: Stream(ids >> 56), Kind: Kind(ids >> 48), Seq: w[sSeq].Load(), Bytes: int64(w[sBytes].Load()),
	}
	switch after := w[sVersion].Load(); {
	case before < 2*n+2:
		return s, unfinished
	case before != 2*n+2 || after != before:
		return s, replaced
	}
	unit, axis, op := int(ids>>24&maxUnit), int(ids>>12&maxName), int(ids&maxName)
	if max(unit, axis, op) >= len(*names) {
		*names = *r.names.byID.Load()
	}
	s.Unit, s.Axis, s.Op = (*names)[unit], (*names)[axis], (*names)[op]
	return s, complete
}

const (
	maxUnit = 1<<24 - 1
	maxName = 1<<12 - 1
)

// names numbers strings. Readers take no lock; a new name replaces the map.
type names struct {
	mu   sync.Mutex
	ids  atomic.Pointer[map[string]uint32]
	byID atomic.Pointer[[]string]
}

// id returns the number of a name. The names of a model's units, axes and operations are few; from the 4095th on all
// are "".
func (t *names) id(name string) uint32 {
	if name == "" {
		return 0
	}
	if id, ok := (*t.ids.Load())[name]; ok {
		return id
	}
	return t.add(name)
}

func (t *names) add(name string) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := *t.ids.Load()
	if id, ok := old[name]; ok {
		return id
	}
	if len(old) > maxName {
		return 0
	}
	byID := append(append([]string{}, *t.byID.Load()...), name)
	ids := maps.Clone(old)
	ids[name] = uint32(len(byID) - 1)
	t.byID.Store(&byID) // first: a span with the number may be read at once
	t.ids.Store(&ids)
	return ids[name]
}
