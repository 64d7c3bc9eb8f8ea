package record

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

	"trireme/tensor"
)

// Program is a step, or a micro-batch of it, as a list of operations, equal for all ranks and all
// steps with the same shapes. It is immutable.
type Program struct {
	Key     [sha256.Size]byte // equal for equal programs, on all ranks
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

// Span is the range of elements of v in its buffer, on all ranks: the first and their number.
func (v *View) Span() (first, n int) {
	if rows := v.Shape.Elems(); rows > 0 {
		n = 1
		if k := len(v.Shape); k > 0 {
			n = (v.Shape[:k-1].Elems()-1)*v.RowStride + v.Shape[k-1]
		}
	}
	if v.Axis != "" {
		n += (v.Count - 1) * v.Elems
	}
	return v.Offset, n
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
	signatures  signatures
	ops         []Op
	text        []byte // identity of ops
	inputs      [][]byte
	results     []*func() []byte
	tracked     map[*tensor.Buffer]*bufferUse
	order       []*bufferUse            // by number
	allocated   map[*tensor.Buffer]bool // unreleased temporaries
	coordinates map[string]int          // of the rank, by axis
}

// bufferUse is a buffer of a program.
type bufferUse struct {
	buf       *tensor.Buffer
	num       int
	temporary bool
	size      int
	cat       tensor.Category
	dtype     tensor.DType
}

// Record runs step on r without computing, and returns its program. last reports that no later
// program of the step reads what this one leaves in buffers that it wrote first (see
// tensor.Compile). Record returns step's error, or an *Error if the step cannot be recorded. After an
// error, step's objects are in an undefined state.
func (r *Backend) Record(last bool, step func() error) (rec *Recording, err error) {
	if r.step != nil {
		fail("Record", "a step is being recorded")
	}
	s := &recorder{signatures: r.signatures, tracked: map[*tensor.Buffer]*bufferUse{}, allocated: map[*tensor.Buffer]bool{}, coordinates: map[string]int{}}
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
	return r.finish(s, last), nil
}

// add records an operation. It keeps args; callers must not modify them.
func (s *recorder) add(kind opKind, group, signature string, accumulate bool, args ...any) {
	name, params := s.signatures.parse(signature)
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
	s.text = op.identity(s.text)
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

// finish returns the recording. Recordings of the same operations share a program.
func (r *Backend) finish(s *recorder, last bool) *Recording {
	rec := &Recording{Inputs: s.inputs, results: s.results, Coordinates: maps.Clone(s.coordinates)}
	for _, t := range s.order {
		bound, temporary := t.buf, 0
		if t.temporary {
			bound, temporary = nil, 1
		}
		rec.Bound = append(rec.Bound, bound)
		for _, n := range []int{temporary, int(t.cat), t.size} {
			s.text = binary.AppendVarint(s.text, int64(n))
		}
	}
	if last {
		s.text = append(s.text, 1)
	}
	key := sha256.Sum256(s.text)
	if r.programs[key] == nil {
		r.programs[key] = s.analyze(last)
		r.programs[key].Key = key
	}
	rec.Program = r.programs[key]
	return rec
}
