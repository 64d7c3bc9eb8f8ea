package cpu

import (
	"math"

	"trireme/internal/kernel"
	"trireme/tensor"
)

func (b *Backend) Fill(dst *tensor.Tensor, v float64) {
	switch dst.DType() {
	case tensor.F32:
		fill(b, dst, float32(v))
	case tensor.BF16:
		var h [1]uint16
		kernel.F32ToBF16(h[:], []float32{float32(v)})
		fill(b, dst, h[0])
	case tensor.F16:
		var h [1]uint16
		kernel.F32ToF16(h[:], []float32{float32(v)})
		fill(b, dst, h[0])
	case tensor.F64:
		fill(b, dst, v)
	case tensor.I32:
		fill(b, dst, int32(v))
	case tensor.I64:
		fill(b, dst, int64(v))
	case tensor.U8:
		fill(b, dst, uint8(v))
	}
}

func fill[E tensor.Elem](b *Backend, dst *tensor.Tensor, v E) {
	x := tensor.Host[E](dst)
	rows, width, ld := dst.Rows(), dst.Width(), dst.RowStride()
	if dst.Contiguous() { // split long rows over threads
		n := rows * width
		width = min(tileElems, max(1, n))
		rows, ld = (n+width-1)/width, width
	}
	b.rows(rows, width, func(lo, hi, _ int) {
		for r := lo; r < hi; r++ {
			row := x[r*ld : min(r*ld+width, len(x))]
			if v == 0 && !math.Signbit(float64(v)) {
				clear(row)
				continue
			}
			for i := range row {
				row[i] = v
			}
		}
	})
}

func (b *Backend) Copy(dst, src *tensor.Tensor) {
	if dst.Contiguous() && src.Contiguous() && dst.Elems() == src.Elems() {
		dst, src = dst.Flat(0, dst.Elems()), src.Flat(0, src.Elems())
	}
	rows, width := sameShape("copy", dst, src)
	if dst.DType() != src.DType() {
		b.convert(rows, width, dst, src)
		return
	}
	switch dst.DType().Size() {
	case 1:
		copyRows[uint8](b, dst, src)
	case 2:
		copyRows[uint16](b, dst, src)
	case 4:
		copyRows[float32](b, dst, src)
	default:
		copyRows[float64](b, dst, src)
	}
}

func copyRows[E tensor.Elem](b *Backend, dst, src *tensor.Tensor) {
	d, s := tensor.Host[E](dst), tensor.Host[E](src)
	rows, width, dld, sld := dst.Rows(), dst.Width(), dst.RowStride(), src.RowStride()
	if rows == 1 { // split long rows over threads
		n := width
		width = min(tileElems, max(1, n))
		rows, dld, sld = (n+width-1)/width, width, width
	}
	b.rows(rows, width, func(lo, hi, _ int) {
		for r := lo; r < hi; r++ {
			copy(d[r*dld:min(r*dld+width, len(d))], s[r*sld:min(r*sld+width, len(s))])
		}
	})
}

// convert copies between types.
func (b *Backend) convert(rows, width int, dst, src *tensor.Tensor) {
	from, _ := tensor.Arithmetic(src.DType())
	to, _ := tensor.Arithmetic(dst.DType())
	in := [3]*tensor.Tensor{src}
	switch {
	case from == tensor.F32 && to == tensor.F32:
		b.convertFloats(rows, width, floats("copy", dst), floats("copy", src))
	case from == tensor.F32:
		elementwise(b, "copy", dst, in, func(o, x, _, _ []float32) { copy(o, x) })
	case from == tensor.F64:
		elementwise(b, "copy", dst, in, func(o, x, _, _ []float64) { copy(o, x) })
	case from == tensor.I32:
		elementwise(b, "copy", dst, in, func(o, x, _, _ []int32) { copy(o, x) })
	default:
		elementwise(b, "copy", dst, in, func(o, x, _, _ []int64) { copy(o, x) })
	}
}

// convertFloats needs no scratch if one type is F32.
func (b *Backend) convertFloats(rows, width int, dst, src operand) {
	if dst.narrow() && src.narrow() {
		b.each(rows, width, eachOperands{o: dst, x: src}, func(o, _, x, _, _ []float32) { copy(o, x) })
		return
	}
	piece := max(1, min(tileElems, width))
	inRow := (width + piece - 1) / piece
	b.rows(rows*inRow, piece, func(lo, hi, _ int) {
		for p := lo; p < hi; p++ {
			r, c := p/inRow, p%inRow*piece
			n := min(piece, width-c)
			if dst.narrow() {
				dst.store(r*dst.ld+c, src.f[r*src.ld+c:][:n])
			} else {
				src.load(r*src.ld+c, n, dst.f[r*dst.ld+c:][:n])
			}
		}
	})
}
