package record

import (
	"maps"
	"slices"

	"trireme/tensor"
)

// Program is a step, or a micro-batch of it, as a list of operations, equal for all ranks and all
// steps with the same shapes. It is immutable.
type Program struct {
	Buffers []Buffer
	Ops     []Op
}

// Kind is a buffer's role in a program.
type Kind string

const (
	Constant  Kind = "constant"  // only read: tables, frozen parameters
	State     Kind = "state"     // read and written, or written in part
	Output    Kind = "output"    // all of it is written before it is read; undefined before
	Scratch   Kind = "scratch"   // written before read, by the last program of a step; undefined before and after
	Temporary Kind = "temporary" // allocated and released within the program
)

// Buffer is device memory, numbered by first use.
type Buffer struct {
	Kind  Kind
	Cat   tensor.Category
	Size  int          // bytes
	DType tensor.DType // of the first view
}

// Op is a method of tensor.Backend or collective.Group.
type Op struct {
	Name  string
	Group string // "" unless a collective
	Args  []Arg  // in order of the method's parameters
	kind  opKind
}

// opKind is the executor of an operation.
type opKind uint8

const (
	operation     opKind = iota // the backend
	upload                      // the host: an input
	result                      // the host: a result
	communication               // a group
)

// Arg is an argument: tensors or a static attribute.
type Arg struct {
	Name     string
	Read     bool   // of tensors
	Write    bool   // of tensors
	Attr     any    // a number, a flag or a struct with nil tensors; nil for plain tensors
	Views    []View // tensors: the argument, elements of a list or fields of Attr
	template any    // Attr, or an argument of the method's type to fill with Views
}

// View is a range of a buffer.
type View struct {
	Buffer    int // number; -1 for a nil tensor
	DType     tensor.DType
	Shape     tensor.Shape
	RowStride int
	// Offset is the first element in the buffer. With an Axis, the rank's coordinate on it, of
	// Count, times Elems is added.
	Offset       int
	Axis         string
	Count, Elems int
	base         int // start of the first part
	// Reads is the version that an operation reads, Writes the one that it creates. Version 0 is
	// from before the step.
	Reads, Writes int
}

// Recording is one program of one rank in one step.
type Recording struct {
	*Program
	Inputs      [][]byte         // uploads, in order
	Coordinates map[string]int   // of the rank, per axis of the program
	Bound       []*tensor.Buffer // by buffer number; nil for temporaries
	results     []*func() []byte // downloads, in order
}

// recorder records a program.
type recorder struct {
	ops         []Op
	inputs      [][]byte
	results     []*func() []byte
	tracked     map[*tensor.Buffer]*bufferUse
	order       []*bufferUse            // by number
	allocated   map[*tensor.Buffer]bool // unreleased temporaries
	coordinates map[string]int          // of the rank, by axis
}

// bufferUse is a buffer's use in a program.
type bufferUse struct {
	buf       *tensor.Buffer
	num       int
	temporary bool
	size      int
	cat       tensor.Category
	dtype     tensor.DType
	versions  versions
	initial   bool // read before written
	written   bool
}

// Record runs step on r without computing, and returns its program. last reports that no later
// program of the step reads what this one leaves in buffers that it wrote first (see
// tensor.Compile). Record returns step's error, or an *Error if the step cannot be recorded. After an
// error, step's objects are in an undefined state.
func (r *Backend) Record(last bool, step func() error) (rec *Recording, err error) {
	if r.step != nil {
		fail("Record", "a step is being recorded")
	}
	s := &recorder{tracked: map[*tensor.Buffer]*bufferUse{}, allocated: map[*tensor.Buffer]bool{}, coordinates: map[string]int{}}
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
	for buf := range s.allocated {
		fail("New", "a tensor of %d bytes (%v) is kept beyond the step", buf.Size, buf.Cat)
	}
	return s.finish(last), nil
}

// add records an operation. It keeps args; callers must not modify them.
func (s *recorder) add(kind opKind, group, signature string, accumulate bool, args ...any) {
	name, params := parse(signature)
	op := Op{Name: name, Group: group, kind: kind, Args: make([]Arg, len(args))}
	for i, arg := range args {
		p := params[i]
		a := &op.Args[i]
		a.Name, a.Write = p.name, p.mark != 0
		a.Read = p.mark == 0 || p.mark == '+' || p.mark == '?' && accumulate
		a.template = withTensors(arg, func(t *tensor.Tensor) *tensor.Tensor {
			a.Views = append(a.Views, s.view(t))
			return nil
		})
		switch arg.(type) {
		case *tensor.Tensor, []*tensor.Tensor:
		default:
			a.Attr = a.template
		}
	}
	// Reads first: a result may overwrite an operand.
	each := func(f func(a *Arg, v *View, t *bufferUse)) {
		for i := range op.Args {
			a := &op.Args[i]
			for j := range a.Views {
				if v := &a.Views[j]; v.Buffer >= 0 {
					f(a, v, s.order[v.Buffer])
				}
			}
		}
	}
	each(func(a *Arg, v *View, t *bufferUse) {
		if !a.Read {
			return
		}
		version, written := t.versions.read(v)
		if v.Reads = version; written {
			return
		}
		if t.temporary && !a.Write {
			fail(name, "%s has uninitialized elements", a.Name)
		}
		t.initial = true
	})
	each(func(a *Arg, v *View, t *bufferUse) {
		if a.Write {
			t.written = t.written || name != barrier
			v.Writes = t.versions.write(v)
		}
	})
	s.ops = append(s.ops, op)
}

// barrier writes existing contents.
const barrier = "Barrier"

// view is a tensor in the program.
func (s *recorder) view(t *tensor.Tensor) View {
	if t == nil {
		return View{Buffer: -1}
	}
	b := s.tracked[t.Buffer()]
	if b == nil {
		b = &bufferUse{buf: t.Buffer(), num: len(s.order), temporary: s.allocated[t.Buffer()], size: t.Buffer().Size, cat: t.Buffer().Cat, dtype: t.DType()}
		s.tracked[t.Buffer()], s.order = b, append(s.order, b)
	}
	v := View{Buffer: b.num, DType: t.DType(), Shape: slices.Clone(t.Shape()), RowStride: t.RowStride(), Offset: t.Offset()}
	if p := t.Part(); p != nil {
		s.coordinates[p.Axis] = p.Index
		v.Axis, v.Count, v.Elems = p.Axis, p.Count, p.Elems
		v.Offset -= p.Index * p.Elems
		v.base = p.First
	}
	return v
}

// finish returns the recorded program. last is Record's.
func (s *recorder) finish(last bool) *Recording {
	p := &Program{Ops: s.ops}
	rec := &Recording{Program: p, Inputs: s.inputs, results: s.results, Coordinates: maps.Clone(s.coordinates)}
	for _, t := range s.order {
		b, bound := Buffer{Kind: Scratch, Cat: t.cat, Size: t.size, DType: t.dtype}, t.buf
		switch {
		case t.temporary:
			b.Kind, bound = Temporary, nil
		case t.initial && t.written:
			b.Kind = State
		case t.initial:
			b.Kind = Constant
		case last:
		case t.allWritten():
			b.Kind = Output
		default:
			b.Kind = State // the rest of it keeps its contents
		}
		p.Buffers, rec.Bound = append(p.Buffers, b), append(rec.Bound, bound)
	}
	return rec
}

// allWritten reports whether every element of the buffer is written, on every rank.
func (t *bufferUse) allWritten() bool {
	_, written := t.versions.read(&View{DType: tensor.U8, Shape: tensor.Shape{t.size}, RowStride: t.size})
	return written
}
