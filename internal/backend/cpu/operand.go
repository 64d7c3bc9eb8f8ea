package cpu

import (
	"trireme/internal/kernel"
	"trireme/tensor"
)

// operand is a tensor for kernels: F32 in place, BF16 and F16 through scratch. Element i of row r
// is at r*ld+i. The zero operand is a nil tensor.
type operand struct {
	f  []float32
	h  []uint16
	dt tensor.DType
	ld int
}

// floats is the operand of an F32, BF16, F16 or nil tensor.
func floats(op string, t *tensor.Tensor) operand {
	if t == nil {
		return operand{}
	}
	o := operand{dt: t.DType(), ld: t.RowStride()}
	switch o.dt {
	case tensor.F32:
		o.f = tensor.Host[float32](t)
	case tensor.BF16, tensor.F16:
		o.h = tensor.Host[uint16](t)
	default:
		check(false, op, "%v is not F32, BF16 or F16", t)
	}
	return o
}

func (o *operand) present() bool { return o.ld != 0 }
func (o *operand) narrow() bool  { return o.present() && o.dt != tensor.F32 }

// row is row i.
func (o *operand) row(i, width int) operand {
	r := operand{dt: o.dt, ld: width}
	if o.narrow() {
		r.h = o.h[i*o.ld:][:width]
	} else {
		r.f = o.f[i*o.ld:][:width]
	}
	return r
}

func (o operand) clear() {
	clear(o.f)
	clear(o.h)
}

// copy copies an operand of the same type.
func (o operand) copy(from operand) {
	copy(o.f, from.f)
	copy(o.h, from.h)
}

// load is elements [off, off+n), in tmp unless F32; nil for no tensor.
func (o *operand) load(off, n int, tmp []float32) []float32 {
	switch {
	case !o.present():
		return nil
	case o.dt == tensor.F32:
		return o.f[off : off+n]
	case o.dt == tensor.BF16:
		kernel.BF16ToF32(tmp[:n], o.h[off:off+n])
	default:
		kernel.F16ToF32(tmp[:n], o.h[off:off+n])
	}
	return tmp[:n]
}

// dest is memory for elements [off, off+n), to pass to store.
func (o *operand) dest(off, n int, tmp []float32) []float32 {
	switch {
	case !o.present():
		return nil
	case o.dt == tensor.F32:
		return o.f[off : off+n]
	}
	return tmp[:n]
}

// store writes x from dest to the tensor.
func (o *operand) store(off int, x []float32) {
	switch {
	case !o.narrow():
	case o.dt == tensor.BF16:
		kernel.F32ToBF16(o.h[off:off+len(x)], x)
	default:
		kernel.F32ToF16(o.h[off:off+len(x)], x)
	}
}

// scratch is memory of one operation.
type scratch struct {
	b   *Backend
	buf []byte
}

func (b *Backend) scratch(bytes int) scratch {
	if bytes == 0 {
		return scratch{}
	}
	return scratch{b, b.private.Alloc(bytes)}
}

func (s scratch) release() {
	if s.b != nil {
		s.b.private.Free(s.buf)
	}
}

// tileElems is the number of elements per tile. Operations of no more than inlineElems run on the
// calling thread.
const (
	tileElems   = 16 << 10
	inlineElems = 32 << 10
)

// rows splits rows of the given width into tiles of whole rows.
func (b *Backend) rows(rows, width int, f func(lo, hi, thread int)) {
	if rows == 0 {
		return
	}
	step := max(1, tileElems/max(1, width))
	if rows*width <= inlineElems || b.pool.threads == 1 {
		step = rows
	}
	b.pool.run((rows+step-1)/step, func(tile, thread int) {
		f(tile*step, min(rows, (tile+1)*step), thread)
	})
}

// pieceElems is the number of 16-bit elements converted at once.
const pieceElems = 1024

// eachKernel computes a piece of the outputs o, o2 from a piece of the inputs; missing ones are
// nil.
type eachKernel func(o, o2, x, y, z []float32)

// eachOperands are an element-wise operation's outputs (o, o2) and inputs.
type eachOperands struct{ o, o2, x, y, z operand }

// each runs an element-wise operation on tensors of one shape.
func (b *Backend) each(rows, width int, a eachOperands, f eachKernel) {
	all := [...]*operand{&a.o, &a.o2, &a.x, &a.y, &a.z}
	flat, narrow := true, false
	for _, o := range all {
		flat = flat && (!o.present() || o.ld == width || rows == 1)
		narrow = narrow || o.narrow()
	}
	if flat {
		rows, width = 1, rows*width
	}
	if rows == 0 || width == 0 {
		return
	}
	piece, tmp := tileElems, []float32(nil)
	if narrow {
		piece = pieceElems
		s := b.scratch(b.pool.threads * len(all) * pieceElems * 4)
		defer s.release()
		tmp = elems[float32](s, tensor.F32)
	}
	piece = min(piece, width)
	inRow := (width + piece - 1) / piece
	b.rows(rows*inRow, piece, func(lo, hi, thread int) {
		var t [len(all)][]float32
		if narrow {
			for i := range t {
				t[i] = tmp[(thread*len(all)+i)*pieceElems:][:pieceElems]
			}
		}
		for p := lo; p < hi; p++ {
			r, c := p/inRow, p%inRow*piece
			n := min(piece, width-c)
			o, o2 := a.o.dest(r*a.o.ld+c, n, t[0]), a.o2.dest(r*a.o2.ld+c, n, t[1])
			f(o, o2, a.x.load(r*a.x.ld+c, n, t[2]), a.y.load(r*a.y.ld+c, n, t[3]), a.z.load(r*a.z.ld+c, n, t[4]))
			a.o.store(r*a.o.ld+c, o)
			a.o2.store(r*a.o2.ld+c, o2)
		}
	})
}

// sameShape panics unless all non-nil tensors have the rows and width of first.
func sameShape(op string, first *tensor.Tensor, others ...*tensor.Tensor) (rows, width int) {
	rows, width = first.Rows(), first.Width()
	for _, t := range others {
		check(t == nil || t.Rows() == rows && t.Width() == width, op, "%v with %v", t, first)
	}
	return rows, width
}

// rowScratch is a row of F32 per thread and operand, if an operand is not F32.
type rowScratch struct {
	scratch
	f        []float32
	width, n int
}

func (b *Backend) rowScratch(width int, ops ...*operand) rowScratch {
	for _, o := range ops {
		if o.narrow() {
			s := b.scratch(b.pool.threads * len(ops) * width * 4)
			return rowScratch{s, elems[float32](s, tensor.F32), width, len(ops)}
		}
	}
	return rowScratch{}
}

func (s *rowScratch) row(thread, i int) []float32 {
	if s.f == nil {
		return nil
	}
	return s.f[(thread*s.n+i)*s.width:][:s.width]
}

// elems is scratch as elements.
func elems[E tensor.Elem](s scratch, dt tensor.DType) []E {
	n := len(s.buf) / dt.Size()
	if n == 0 {
		return nil
	}
	return tensor.Host[E](tensor.Of(tensor.NewBuffer(s.buf, len(s.buf), tensor.Workspace, nil), dt, 0, n))
}
