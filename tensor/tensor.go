package tensor

import (
	"fmt"
	"strings"
)

// Shape is the size of each dimension, outermost first.
type Shape []int

// Elems is the number of elements; 1 for no dimensions.
func (s Shape) Elems() int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// Equal reports whether two shapes are the same.
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

// Buffer is memory of one device. The code that allocates a buffer releases it; views do not own it.
type Buffer struct {
	Bytes   []byte       // host memory; nil on meta and accelerators
	Backing BackingStore // of an offloaded buffer; see NewOffloaded
	Size    int          // bytes
	Cat     Category     // use of the memory
	free    func(*Buffer)
}

// NewBuffer wraps memory. Release calls free once, if not nil.
func NewBuffer(bytes []byte, size int, cat Category, free func(*Buffer)) *Buffer {
	return &Buffer{Bytes: bytes, Size: size, Cat: cat, free: free}
}

// Release frees the memory. It panics on a second call.
func (b *Buffer) Release() {
	if b.Size < 0 {
		panic("tensor: a buffer was released twice")
	}
	if b.free != nil {
		b.free(b)
	}
	b.Bytes, b.Backing, b.Size = nil, nil, -1
}

// Tensor is a view of elements in a Buffer.
type Tensor struct {
	dtype DType
	shape Shape
	buf   *Buffer
	off   int // first element
	ld    int // row stride in elements; differs from the width in two dimensions only
	part  *Part
}

// Of returns a contiguous tensor that starts at element off of buf.
func Of(buf *Buffer, dt DType, off int, shape ...int) *Tensor {
	return Strided(buf, dt, off, width(shape), shape...)
}

// Strided is Of with a row stride of ld elements.
func Strided(buf *Buffer, dt DType, off, ld int, shape ...int) *Tensor {
	t := &Tensor{dtype: dt, shape: shape, buf: buf, off: off, ld: ld}
	if off < 0 || (off+t.span())*dt.Size() > buf.Size {
		panic(fmt.Sprintf("tensor: %v at element %d does not fit a buffer of %d bytes", t, off, buf.Size))
	}
	return t
}

// Part describes a view that depends on the rank: part Index of Count equal parts, with Index the
// rank's coordinate on Axis. A recorder stores the axis instead of Index, so one program serves all
// ranks.
type Part struct {
	Axis         string
	Index, Count int
	First, Elems int // start of the first part in the buffer, and size of each part, in elements
}

func width(s Shape) int {
	if len(s) == 0 {
		return 1
	}
	return s[len(s)-1]
}

// DType is the element type.
func (t *Tensor) DType() DType { return t.dtype }

// Shape is the size of each dimension. Callers must not modify it.
func (t *Tensor) Shape() Shape { return t.shape }

// Dim is the size of dimension i; negative i counts from the last.
func (t *Tensor) Dim(i int) int {
	if i < 0 {
		i += len(t.shape)
	}
	return t.shape[i]
}

// Elems is the number of elements.
func (t *Tensor) Elems() int { return t.shape.Elems() }

// Bytes is the size of the elements in bytes, without row gaps.
func (t *Tensor) Bytes() int { return t.Elems() * t.dtype.Size() }

// Buffer is the tensor's memory.
func (t *Tensor) Buffer() *Buffer { return t.buf }

// Offset is the tensor's first element in its buffer, in elements.
func (t *Tensor) Offset() int { return t.off }

// RowStride is the number of elements between the starts of consecutive rows.
func (t *Tensor) RowStride() int { return t.ld }

// Rows is the product of all dimensions but the last.
func (t *Tensor) Rows() int {
	if len(t.shape) == 0 {
		return 1
	}
	return t.shape[:len(t.shape)-1].Elems()
}

// Width is the size of the last dimension.
func (t *Tensor) Width() int { return width(t.shape) }

// Contiguous reports whether rows have no gaps.
func (t *Tensor) Contiguous() bool { return t.ld == t.Width() || t.Rows() <= 1 }

// Part describes the rank-dependent view that t is in; nil for none.
func (t *Tensor) Part() *Part { return t.part }

// InPart is the view t as one within part p.
func (t *Tensor) InPart(p Part) *Tensor {
	u := *t
	u.part = &p
	return &u
}

// Release frees the tensor's buffer.
func (t *Tensor) Release() { t.buf.Release() }

// Reshape is a view of a contiguous tensor with another shape.
func (t *Tensor) Reshape(shape ...int) *Tensor {
	s := Shape(shape)
	if !t.Contiguous() || s.Elems() != t.Elems() {
		panic(fmt.Sprintf("tensor: cannot reshape %v to %v", t, s))
	}
	return &Tensor{dtype: t.dtype, shape: s, buf: t.buf, off: t.off, ld: width(s), part: t.part}
}

// RankPart is a one-dimensional view of part index of count equal parts of a contiguous tensor, for
// a rank's coordinate index on an axis of count ranks.
func (t *Tensor) RankPart(axis string, index, count int) *Tensor {
	n := t.Elems() / count
	if t.part != nil || index < 0 || index >= count || n*count != t.Elems() {
		panic(fmt.Sprintf("tensor: cannot take part %d of %d of %v", index, count, t))
	}
	own := t.Flat(index*n, (index+1)*n)
	own.part = &Part{Axis: axis, Index: index, Count: count, First: t.off, Elems: n}
	return own
}

// Flat is a one-dimensional view of elements [lo, hi) of a contiguous tensor.
func (t *Tensor) Flat(lo, hi int) *Tensor {
	if !t.Contiguous() || lo < 0 || hi < lo || hi > t.Elems() {
		panic(fmt.Sprintf("tensor: cannot take elements [%d,%d) of %v", lo, hi, t))
	}
	return &Tensor{dtype: t.dtype, shape: Shape{hi - lo}, buf: t.buf, off: t.off + lo, ld: hi - lo, part: t.part}
}

// RowRange is a two-dimensional view of rows [lo, hi).
func (t *Tensor) RowRange(lo, hi int) *Tensor {
	if lo < 0 || hi < lo || hi > t.Rows() {
		panic(fmt.Sprintf("tensor: cannot take rows [%d,%d) of %v", lo, hi, t))
	}
	return &Tensor{dtype: t.dtype, shape: Shape{hi - lo, t.Width()}, buf: t.buf, off: t.off + lo*t.ld, ld: t.ld, part: t.part}
}

// Cols is a two-dimensional view of columns [lo, hi) with t's row stride.
func (t *Tensor) Cols(lo, hi int) *Tensor {
	if lo < 0 || hi < lo || hi > t.Width() {
		panic(fmt.Sprintf("tensor: cannot take columns [%d,%d) of %v", lo, hi, t))
	}
	return &Tensor{dtype: t.dtype, shape: Shape{t.Rows(), hi - lo}, buf: t.buf, off: t.off + lo, ld: t.ld, part: t.part}
}

// Join returns one view of tensors that are adjacent in one buffer, with their first dimensions
// added up (weights of fused projections), or nil if they are not adjacent.
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
