package cpu

import (
	"trireme/internal/kernel"
	"trireme/tensor"
)

func (b *Backend) Words(dst, at *tensor.Tensor, key tensor.RandKey) {
	const op = "words"
	for _, t := range []*tensor.Tensor{dst, at} {
		check(t.DType() == tensor.I64 && t.Contiguous() && t.Elems() == dst.Elems(), op, "the numbers %v of %v", at, dst)
	}
	out, from := tensor.Host[int64](dst), tensor.Host[int64](at)
	b.rows(len(out), 16, func(lo, hi, _ int) {
		kernel.Words(out[lo:hi], from[lo:hi], key.Seed, key.Stream)
	})
}

func (b *Backend) Normal(dst *tensor.Tensor, key tensor.RandKey, first int64, std float64) {
	check(dst.Contiguous(), "normal", "%v has row gaps", dst)
	const piece = pieceElems
	o, n := floats("normal", dst), dst.Elems()
	var tmp []float32
	if o.narrow() {
		s := b.scratch(b.pool.threads * piece * 4)
		defer s.release()
		tmp = elems[float32](s, tensor.F32)
	}
	b.rows((n+piece-1)/piece, piece, func(lo, hi, thread int) {
		for off := lo * piece; off < min(n, hi*piece); off += piece {
			var t []float32
			if o.narrow() {
				t = tmp[thread*piece:][:piece]
			}
			x := o.dest(off, min(piece, n-off), t)
			kernel.Normal(x, key.Seed, key.Stream, first+int64(off), std)
			o.store(off, x)
		}
	})
}

func (b *Backend) Dropout(dst, x *tensor.Tensor, key tensor.RandKey, ids *tensor.Tensor, p float64) {
	const op = "dropout"
	rows, width := sameShape(op, dst, x)
	d, at := newDropout(op, key, p), rowIDs(op, ids, rows)
	o, in := floats(op, dst), floats(op, x)
	if rows == 0 || width == 0 {
		return
	}
	piece, joined := kernel.DropoutPiece, dst.Contiguous() && x.Contiguous()
	tmp := b.rowScratch(piece, &o, &in)
	defer tmp.release()
	b.rows(rows, width, func(lo, hi, thread int) {
		for lo < hi {
			n := 1 // consecutive ids are one run
			for joined && lo+n < hi && at[lo+n] == at[lo]+int64(n) {
				n++
			}
			for c := 0; c < n*width; c += piece {
				m := min(piece, n*width-c)
				y := o.dest(lo*o.ld+c, m, tmp.row(thread, 0))
				d.Apply(y, in.load(lo*in.ld+c, m, tmp.row(thread, 1)), uint64(at[lo])*uint64(width)+uint64(c))
				o.store(lo*o.ld+c, y)
			}
			lo += n
		}
	})
}

func newDropout(op string, key tensor.RandKey, p float64) kernel.Dropout {
	check(p >= 0 && p < 1, op, "a probability of %v is not in [0, 1)", p)
	return kernel.NewDropout(p, key.Seed, key.Stream)
}

// rowIDs reads I64 [rows].
func rowIDs(op string, t *tensor.Tensor, rows int) []int64 {
	check(t != nil && t.DType() == tensor.I64 && t.Elems() == rows && t.Contiguous(), op, "numbers %v of %d rows", t, rows)
	return tensor.Host[int64](t)
}
