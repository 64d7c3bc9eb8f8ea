package cpu

import (
	"math"
	"sync"

	"trireme/internal/kernel"
	"trireme/tensor"
)

// ExactSquares adds the sum of squares of x, or of each group, to acc.
func (b *Backend) ExactSquares(acc, x, ends *tensor.Tensor) {
	const op = "exact squares"
	if ends != nil {
		check(ends.DType() == tensor.I64 && acc.Elems() == ends.Elems()*tensor.ExactWords, op, "%v of groups %v", acc, ends)
		lo := 0
		for i, end := range tensor.Host[int64](ends) {
			hi := int(end)
			check(lo <= hi && hi <= x.Elems() && hi%tensor.SumBlock == 0, op, "a group of elements [%d,%d) of %v", lo, hi, x)
			if lo < hi {
				b.ExactSquares(acc.Flat(i*tensor.ExactWords, (i+1)*tensor.ExactWords), x.Flat(lo, hi), nil)
			}
			lo = hi
		}
		return
	}
	dst := accumulator(op, acc)
	check(x.Contiguous(), op, "%v has row gaps", x)
	o, n := floats(op, x), x.Elems()
	const piece = 16 * tensor.SumBlock
	var tmp []float32
	if o.narrow() {
		s := b.scratch(b.pool.threads * piece * 4)
		defer s.release()
		tmp = elems[float32](s, tensor.F32)
	}
	var mu sync.Mutex // integer words: any order of tiles gives the same bits
	b.rows((n+piece-1)/piece, piece, func(lo, hi, thread int) {
		var e kernel.Exact
		lo, hi = lo*piece, min(n, hi*piece)
		if !o.narrow() {
			e.Squares(o.f[lo:hi])
		} else {
			for ; lo < hi; lo += piece {
				e.Squares(o.load(lo, min(piece, hi-lo), tmp[thread*piece:]))
			}
		}
		mu.Lock()
		defer mu.Unlock()
		e.AddTo(dst)
	})
	carry(dst)
}

func (b *Backend) ExactAdd(acc, x *tensor.Tensor) {
	const op = "exact add"
	dst := accumulator(op, acc)
	check(x.DType() == tensor.F64 && x.Contiguous(), op, "%v is not contiguous F64", x)
	e := kernel.Exact(dst)
	for i, v := range tensor.Host[float64](x) {
		e.Add(v)
		if i&(1<<20-1) == 0 {
			e.Carry() // before words overflow
		}
	}
	e.Carry()
	copy(dst, e[:])
}

func (b *Backend) ExactValues(out, acc *tensor.Tensor) {
	const op = "exact values"
	n := out.Elems()
	check(out.DType() == tensor.F64 && acc.DType() == tensor.I64 && acc.Elems() == n*tensor.ExactWords && acc.Contiguous(), op, "%v of %v", out, acc)
	words := tensor.Host[int64](acc)
	for i := range n {
		e := kernel.Exact(words[i*tensor.ExactWords:][:tensor.ExactWords])
		tensor.Host[float64](out)[i] = e.Float64()
	}
}

func (b *Backend) StepScalars(out, squares, loss, tokens, maxNorm, lossGrad *tensor.Tensor) {
	const op = "step scalars"
	check(out.DType() == tensor.F64 && out.Elems() == tensor.ScalarCount, op, "the result %v", out)
	check(tokens.DType() == tensor.I64 && tokens.Elems() == 1, op, "the tokens %v", tokens)
	check(maxNorm.DType() == tensor.F64 && maxNorm.Elems() == 1, op, "the limit %v", maxNorm)
	scale := 1.0
	if lossGrad != nil {
		check(lossGrad.DType() == tensor.F64 && lossGrad.Elems() == 1, op, "the loss's gradient %v", lossGrad)
		scale = tensor.Host[float64](lossGrad)[0]
	}
	sq, ls := kernel.Exact(accumulator(op, squares)), kernel.Exact(accumulator(op, loss))
	o := tensor.Host[float64](out)
	n, limit := float64(tensor.Host[int64](tokens)[0]), tensor.Host[float64](maxNorm)[0]
	clear(o)
	o[tensor.ScalarTokens] = n
	if n <= 0 {
		return
	}
	mean, norm := ls.Float64()/n, math.Sqrt(sq.Float64())/(n*scale)
	o[tensor.ScalarLoss], o[tensor.ScalarGradNorm] = mean, norm
	o[tensor.ScalarScale] = 1 / (n * scale)
	if limit > 0 {
		o[tensor.ScalarScale] *= min(1, limit/(norm+1e-6))
	}
	if math.IsNaN(mean-mean) || math.IsNaN(norm-norm) { // infinite or NaN
		o[tensor.ScalarScale] = 0
		return
	}
	o[tensor.ScalarApply] = 1
}

func accumulator(op string, t *tensor.Tensor) []int64 {
	check(t.DType() == tensor.I64 && t.Elems() == tensor.ExactWords, op, "%v is not an exact accumulator", t)
	return tensor.Host[int64](t)
}

func carry(acc []int64) {
	e := kernel.Exact(acc)
	e.Carry()
	copy(acc, e[:])
}
