package record

import (
	"maps"
	"slices"

	"trireme/tensor"
)

// Program is a step as a list of operations: the same one for every rank, and for every step that
// has the same shapes. It is not changed once it is made.
type Program struct {
	Buffers []Buffer
	Ops     []Op
	last    [][]int // of each operation: temporary buffers that nothing after it uses
}

// Kind is what a buffer is to a step.
type Kind string

// The kinds.
const (
	Constant  Kind = "constant"  // is there before and only read: tables, frozen parameters
	State     Kind = "state"     // is there before, read and written
	Scratch   Kind = "scratch"   // is there before and written before it is read: worth nothing before and after
	Temporary Kind = "temporary" // is made and released within the step
)

// Buffer is memory of a device, numbered by its first use.
type Buffer struct {
	Kind Kind
	Cat  tensor.Category
	Size int // bytes
}

// Op is an operation: a method of tensor.Backend or collective.Group by its name.
type Op struct {
	Name  string
	Group string // of a collective; "" for others
	Args  []Arg  // in the order of the method's parameters
	kind  opKind
}

// opKind is what carries an operation out.
type opKind uint8

const (
	operation     opKind = iota // the backend
	upload                      // the host: an input of the program
	result                      // the host: a result
	communication               // a group
)

// Arg is an argument: tensors, or a static attribute.
type Arg struct {
	Name   string
	Read   bool   // tensors are read
	Write  bool   // tensors are written
	Attr   any    // a number, a flag or a struct of them, whose tensors are nil here; nil where all is tensors
	Views  []View // tensors: the argument itself, elements of a list, or fields of Attr
	inside any    // Attr, or what has the place of Views for the method
}

// View is a tensor: a range of a buffer.
type View struct {
	Buffer    int // its number; -1 for no tensor
	DType     tensor.DType
	Shape     tensor.Shape
	RowStride int
	// Offset is the first element, counted from the buffer's begin. Where Axis is not "" a rank's
	// coordinate on that axis, of Count, times Elems is added to it.
	Offset       int
	Axis         string
	Count, Elems int
	base         int // where the first of these parts begins
	// Reads is the version of the range that an operation finds there, and Writes the one that it
	// leaves. The first write of a buffer leaves 1; 0 is what was there before the step.
	Reads, Writes int
}

// Recording is one step of one rank.
type Recording struct {
	*Program
	Inputs      [][]byte         // what the host uploads, in order
	Coordinates map[string]int   // of the rank, on each axis that the program has
	Bound       []*tensor.Buffer // of each number, on this rank; nil for temporary ones
	results     []*[]byte        // what the host reads, in order, where it waits for it
}

// recorder notes a step.
type recorder struct {
	ops     []Op
	inputs  [][]byte
	results []*[]byte
	tracked map[*tensor.Buffer]*track
	order   []*track                // by number
	made    map[*tensor.Buffer]bool // buffers of this step that are not released
	at      map[string]int          // coordinates
}

// track is a buffer during a step.
type track struct {
	buf       *tensor.Buffer
	num       int
	temporary bool
	size      int
	cat       tensor.Category
	versions  versions
	initial   bool // something is read that the step has not written
	written   bool
	lastUse   int // operation
}

// Record runs step, which computes on r, and returns what it asked for in place of a result; nothing
// is computed. Errors are those of step, and an *Error for what cannot be recorded, after which what
// step works on is in no state to go on.
func (r *Backend) Record(step func() error) (rec *Recording, err error) {
	if r.step != nil {
		refuse("Record", "a step is recorded already")
	}
	s := &recorder{tracked: map[*tensor.Buffer]*track{}, made: map[*tensor.Buffer]bool{}, at: map[string]int{}}
	r.step = s
	defer func() {
		r.step = nil
		switch p := recover().(type) {
		case nil:
		case *Error:
			err = p
		default:
			panic(p)
		}
	}()
	if err := step(); err != nil {
		return nil, err
	}
	for buf := range s.made {
		refuse("New", "a tensor of %d bytes (%v) is kept beyond the step", buf.Size, buf.Cat)
	}
	return s.finish(), nil
}

// add notes an operation on tensors of the step. Attributes are kept: the caller does not change them.
func (s *recorder) add(kind opKind, group, signature string, accumulate bool, args ...any) {
	name, params := parse(signature)
	op := Op{Name: name, Group: group, kind: kind, Args: make([]Arg, len(args))}
	for i, arg := range args {
		p := params[i]
		a := &op.Args[i]
		a.Name, a.Write = p.name, p.mark != 0
		a.Read = p.mark == 0 || p.mark == '+' || p.mark == '?' && accumulate
		a.inside = withTensors(arg, func(t *tensor.Tensor) *tensor.Tensor {
			a.Views = append(a.Views, s.view(t))
			return nil
		})
		switch arg.(type) {
		case *tensor.Tensor, []*tensor.Tensor:
		default:
			a.Attr = a.inside
		}
	}
	// All is read before anything is written: an operation's result may take an operand's place.
	each := func(f func(a *Arg, v *View, t *track)) {
		for i := range op.Args {
			a := &op.Args[i]
			for j := range a.Views {
				if v := &a.Views[j]; v.Buffer >= 0 {
					f(a, v, s.order[v.Buffer])
				}
			}
		}
	}
	each(func(a *Arg, v *View, t *track) {
		t.lastUse = len(s.ops)
		if !a.Read {
			return
		}
		version, written := t.versions.read(v)
		if v.Reads = version; written {
			return
		}
		if t.temporary && !a.Write {
			refuse(name, "%s has elements that nothing has written", a.Name)
		}
		t.initial = true
	})
	each(func(a *Arg, v *View, t *track) {
		if a.Write {
			t.written = t.written || name != barrier
			v.Writes = t.versions.write(v)
		}
	})
	s.ops = append(s.ops, op)
}

// barrier is the one operation that writes what is there.
const barrier = "Barrier"

// view is a tensor as the program has it.
func (s *recorder) view(t *tensor.Tensor) View {
	if t == nil {
		return View{Buffer: -1}
	}
	b := s.tracked[t.Buffer()]
	if b == nil {
		b = &track{buf: t.Buffer(), num: len(s.order), temporary: s.made[t.Buffer()], size: t.Buffer().Size, cat: t.Buffer().Cat}
		s.tracked[t.Buffer()], s.order = b, append(s.order, b)
	}
	v := View{Buffer: b.num, DType: t.DType(), Shape: slices.Clone(t.Shape()), RowStride: t.RowStride(), Offset: t.Offset()}
	if p := t.Part(); p != nil {
		s.at[p.Axis] = p.Index
		v.Axis, v.Count, v.Elems = p.Axis, p.Count, p.Elems
		v.Offset -= p.Index * p.Elems
		v.base = p.First
	}
	return v
}

// finish is the step as it was noted.
func (s *recorder) finish() *Recording {
	p := &Program{Ops: s.ops, last: make([][]int, len(s.ops))}
	rec := &Recording{Program: p, Inputs: s.inputs, results: s.results, Coordinates: maps.Clone(s.at)}
	for _, t := range s.order {
		b, bound := Buffer{Kind: Scratch, Cat: t.cat, Size: t.size}, t.buf
		switch {
		case t.temporary:
			b.Kind, bound = Temporary, nil
			p.last[t.lastUse] = append(p.last[t.lastUse], t.num)
		case t.initial && t.written:
			b.Kind = State
		case t.initial:
			b.Kind = Constant
		}
		p.Buffers, rec.Bound = append(p.Buffers, b), append(rec.Bound, bound)
	}
	return rec
}
