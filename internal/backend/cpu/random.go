package cpu

import (
	"trireme/internal/kernel"
	"trireme/tensor"
)

// Normal fills dst with normal numbers that key and their indices name.
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
