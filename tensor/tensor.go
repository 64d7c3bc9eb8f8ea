package tensor

import (
	"fmt"
	"strings"
)

// Shape is the extent of each dimension, outermost first.
type Shape []int

// Elems is the number of elements of the shape; 1 for no dimensions.
func (s Shape) Elems() int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// Equal says whether two shapes are the same.
func (s Shape) Equal(o Shape) bool {
	if len(s) != len(o) {
		return false
	}
	for i := range s {
		if s[i] != o[i] {
			return false
		}
	}
	return true
}

func (s Shape) String() string {
	var b strings.Builder
	b.WriteByte('[')
	for i, d := range s {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprint(&b, d)
	}
	b.WriteByte(']')
	return b.String()
}

// Buffer is memory of one device. Bytes is nil where the host cannot see it (meta,
// accelerators). Whoever allocated a buffer frees it; views of it do not own it.
type Buffer struct {
	Bytes   []byte       // host-visible memory, or nil
	Backing BackingStore // where the contents lie where that is no memory; see NewOffloaded
	Size    int          // bytes
	Cat     Category     // what the memory is for, in the records of memory
	free    func(*Buffer)
}

// NewBuffer wraps memory; free is called once by Release and may be nil.
func NewBuffer(bytes []byte, size int, cat Category, free func(*Buffer)) *Buffer {
	return &Buffer{Bytes: bytes, Size: size, Cat: cat, free: free}
}

// Release gives the memory back. A second call panics: some tensor would be read after
// its memory has gone to another.
func (b *Buffer) Release() {
	if b.Size < 0 {
		panic("tensor: a buffer was released twice")
	}
	if b.free != nil {
		b.free(b)
	}
	b.Bytes, b.Backing, b.Size = nil, nil, -1
}

// Tensor is a handle on elements in a Buffer.
type Tensor struct {
	dtype DType
	shape Shape
	buf   *Buffer
	off   int // of the first element, in elements
	ld    int // elements from one row to the next; only differs from the width in two dimensions
	part  *Part
}

// Of makes a contiguous tensor over a part of a buffer, starting at element off.
func Of(buf *Buffer, dt DType, off int, shape ...int) *Tensor {
	return Strided(buf, dt, off, width(shape), shape...)
}

// Strided is Of with ld elements from one row to the next.
func Strided(buf *Buffer, dt DType, off, ld int, shape ...int) *Tensor {
	t := &Tensor{dtype: dt, shape: shape, buf: buf, off: off, ld: ld}
	if off < 0 || (off+t.span())*dt.Size() > buf.Size {
		panic(fmt.Sprintf("tensor: %v at element %d does not fit a buffer of %d bytes", t, off, buf.Size))
	}
	return t
}

// Part is a place that depends on the rank: one of Count equal parts of a tensor, the Index-th for
// a rank with that coordinate on Axis. What records a step takes Index for a value that each rank
// knows, so that one program serves all.
type Part struct {
	Axis         string
	Index, Count int
	First, Elems int // of the first part in the buffer, and of each, in elements
}

func width(s Shape) int {
	if len(s) == 0 {
		return 1
	}
	return s[len(s)-1]
}

// DType is the type of the elements.
func (t *Tensor) DType() DType { return t.dtype }

// Shape is the extent of each dimension. The caller does not change it.
func (t *Tensor) Shape() Shape { return t.shape }

// Dim is the extent of dimension i; negative i counts from the last.
func (t *Tensor) Dim(i int) int {
	if i < 0 {
		i += len(t.shape)
	}
	return t.shape[i]
}

// Elems is the number of elements.
func (t *Tensor) Elems() int { return t.shape.Elems() }

// Bytes is the number of bytes of the elements, strides not counted.
func (t *Tensor) Bytes() int { return t.Elems() * t.dtype.Size() }

// Buffer is the memory that the tensor lies in.
func (t *Tensor) Buffer() *Buffer { return t.buf }

// Offset is the tensor's first element, counted in elements from its buffer's start.
func (t *Tensor) Offset() int { return t.off }

// RowStride is the number of elements from one row to the next, where all dimensions but
// the last are counted as rows.
func (t *Tensor) RowStride() int { return t.ld }

// Rows is the product of all dimensions but the last; Width is the last.
func (t *Tensor) Rows() int {
	if len(t.shape) == 0 {
		return 1
	}
	return t.shape[:len(t.shape)-1].Elems()
}

// Width is the extent of the last dimension.
func (t *Tensor) Width() int { return width(t.shape) }

// Contiguous says whether rows follow one another without gaps.
func (t *Tensor) Contiguous() bool { return t.ld == t.Width() || t.Rows() <= 1 }

// Part is what says that the tensor lies in a part of another; nil where no Part view was taken.
func (t *Tensor) Part() *Part { return t.part }

// Release gives back the memory of the buffer that the tensor lies in.
func (t *Tensor) Release() { t.buf.Release() }

// Reshape is a view with another shape and the same elements; t must be contiguous.
func (t *Tensor) Reshape(shape ...int) *Tensor {
	s := Shape(shape)
	if !t.Contiguous() || s.Elems() != t.Elems() {
		panic(fmt.Sprintf("tensor: cannot reshape %v to %v", t, s))
	}
	return &Tensor{dtype: t.dtype, shape: s, buf: t.buf, off: t.off, ld: width(s), part: t.part}
}

// RankPart is a view, as one dimension, of a contiguous tensor's part for the coordinate index on an axis
// of count ranks. count divides its elements.
func (t *Tensor) RankPart(axis string, index, count int) *Tensor {
	n := t.Elems() / count
	if t.part != nil || index < 0 || index >= count || n*count != t.Elems() {
		panic(fmt.Sprintf("tensor: cannot take part %d of %d of %v", index, count, t))
	}
	own := t.Flat(index*n, (index+1)*n)
	own.part = &Part{Axis: axis, Index: index, Count: count, First: t.off, Elems: n}
	return own
}

// Flat is a view of elements [lo, hi) of a contiguous tensor, as one dimension.
func (t *Tensor) Flat(lo, hi int) *Tensor {
	if !t.Contiguous() || lo < 0 || hi < lo || hi > t.Elems() {
		panic(fmt.Sprintf("tensor: cannot take elements [%d,%d) of %v", lo, hi, t))
	}
	return &Tensor{dtype: t.dtype, shape: Shape{hi - lo}, buf: t.buf, off: t.off + lo, ld: hi - lo, part: t.part}
}

// RowRange is a view of rows [lo, hi) as a two-dimensional tensor.
func (t *Tensor) RowRange(lo, hi int) *Tensor {
	if lo < 0 || hi < lo || hi > t.Rows() {
		panic(fmt.Sprintf("tensor: cannot take rows [%d,%d) of %v", lo, hi, t))
	}
	return &Tensor{dtype: t.dtype, shape: Shape{hi - lo, t.Width()}, buf: t.buf, off: t.off + lo*t.ld, ld: t.ld, part: t.part}
}

// Cols is a view of columns [lo, hi) as a two-dimensional tensor with t's row stride.
func (t *Tensor) Cols(lo, hi int) *Tensor {
	if lo < 0 || hi < lo || hi > t.Width() {
		panic(fmt.Sprintf("tensor: cannot take columns [%d,%d) of %v", lo, hi, t))
	}
	return &Tensor{dtype: t.dtype, shape: Shape{t.Rows(), hi - lo}, buf: t.buf, off: t.off + lo, ld: t.ld, part: t.part}
}

// Join sees tensors that follow one another in one buffer as a single tensor whose first
// dimension is the sum of theirs (weights of projections that are multiplied at once).
// It returns nil when they do not lie so.
func Join(ts ...*Tensor) *Tensor {
	first := ts[0]
	rows, end := 0, first.off
	for _, t := range ts {
		if t.buf != first.buf || t.part != first.part || t.dtype != first.dtype || t.off != end || !t.Contiguous() || t.Width() != first.Width() && len(t.shape) > 1 {
			return nil
		}
		rows += t.shape[0]
		end += t.Elems()
	}
	s := append(Shape{rows}, first.shape[1:]...)
	return &Tensor{dtype: first.dtype, shape: s, buf: first.buf, off: first.off, ld: width(s), part: first.part}
}

func (t *Tensor) String() string {
	if t == nil {
		return "none"
	}
	return t.dtype.String() + t.shape.String()
}
