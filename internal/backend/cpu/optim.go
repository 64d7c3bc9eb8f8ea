package cpu

import (
	"math"

	"trireme/tensor"
)

// Update runs the rule's formula on each group of each part.
func (b *Backend) Update(rule tensor.UpdateRule, p *tensor.Tensor, state []*tensor.Tensor, g, ends, hyper, scalars *tensor.Tensor) {
	if len(p.Shape()) == 2 {
		row := func(t *tensor.Tensor, i int) *tensor.Tensor {
			n := t.Elems() / p.Rows()
			return t.Flat(i*n, (i+1)*n)
		}
		for i := range p.Rows() {
			var s []*tensor.Tensor
			for _, t := range state {
				s = append(s, row(t, i))
			}
			b.Update(rule, row(p, i), s, row(g, i), ends, hyper, scalars)
		}
		return
	}
	const op = "update"
	n := p.Elems()
	check(p.DType() == tensor.F32 && p.Contiguous(), op, "%v is not F32", p)
	u := updateCall{p: tensor.Host[float32](p), g: floats(op, g), narrow: g.DType() != tensor.F32, states: rule.States(), block: 1}
	check(g.Elems() == n && g.Contiguous(), op, "%v with %v", g, p)
	if len(state) == 2*u.states && u.states > 0 {
		u.block, u.narrow = tensor.StateBlock, true
	} else {
		check(len(state) == u.states, op, "%T has %d states, not %d", rule, u.states, len(state))
	}
	for i, t := range state[:u.states] {
		check(t.Elems() == n && t.Contiguous(), op, "%v with %v", t, p)
		if u.block == 1 {
			u.s[i].operand = floats(op, t)
			u.narrow = u.narrow || t.DType() != tensor.F32
			continue
		}
		scales := state[u.states+i]
		check(t.DType() == tensor.U8 && scales.DType() == tensor.F32 && scales.Contiguous() && scales.Elems() == (n+u.block-1)/u.block, op, "%v and scales %v", t, scales)
		u.s[i].quantized = &quantized{tensor.Host[uint8](t), tensor.Host[float32](scales), dynamic(!tensor.Unsigned(rule, i))}
	}
	check(ends.DType() == tensor.I64 && ends.Contiguous(), op, "the groups %v", ends)
	check(hyper.DType() == tensor.F64 && hyper.Rows() == ends.Elems() && hyper.Width() >= rule.Inputs(), op, "the inputs %v of %d groups", hyper, ends.Elems())
	check(scalars.DType() == tensor.F64 && scalars.Elems() == tensor.ScalarCount, op, "the scalars %v", scalars)
	s, h, lo := tensor.Host[float64](scalars), tensor.Host[float64](hyper), 0
	if s[tensor.ScalarApply] == 0 {
		return
	}
	if u.narrow {
		u.scratch = b.scratch(b.pool.threads * (1 + maxStates) * pieceElems * 4)
		defer u.scratch.release()
	}
	u.parts = make([]elements, b.pool.threads)
	for i, end := range tensor.Host[int64](ends) {
		hi := int(end)
		check(lo <= hi && hi <= n && (lo%u.block == 0 || lo == hi), op, "a group of elements [%d,%d) of %d", lo, hi, n)
		if lo < hi {
			b.updateGroup(&u, lo, hi, formula(rule, h[i*hyper.RowStride():][:rule.Inputs()], s[tensor.ScalarScale]))
		}
		lo = hi
	}
	check(lo == n, op, "groups end at %d of %d elements", lo, n)
}

// maxStates is the largest States of a rule.
const maxStates = 3

// updateCall has the operands of one call.
type updateCall struct {
	p       []float32
	g       operand
	s       [maxStates]stateTensor
	states  int
	block   int  // groups start at multiples of it
	narrow  bool // an operand is not F32
	scratch scratch
	parts   []elements // per thread
}

// elements are a formula's operands.
type elements struct {
	p, g []float32
	s    [maxStates][]float32
}

// updateGroup runs a formula over elements [lo, hi), in pieces if operands are converted.
func (b *Backend) updateGroup(u *updateCall, lo, hi int, f func(*elements)) {
	const piece = pieceElems
	tmp := elems[float32](u.scratch, tensor.F32)
	b.rows((hi-lo+piece-1)/piece, piece, func(first, last, thread int) {
		x := &u.parts[thread]
		at, end, step := lo+first*piece, min(hi, lo+last*piece), hi-lo
		var t [1 + maxStates][]float32
		if u.narrow {
			step = piece
			for i := range t {
				t[i] = tmp[(thread*len(t)+i)*piece:][:piece]
			}
		}
		for ; at < end; at += step {
			n := min(step, end-at)
			x.p, x.g = u.p[at:at+n], u.g.load(at, n, t[0])
			for i := range u.states {
				x.s[i] = u.s[i].load(at, n, t[1+i])
			}
			f(x)
			for i := range u.states {
				u.s[i].store(at, x.s[i])
			}
		}
	})
}

func (b *Backend) UpdateLossScale(state, scalars *tensor.Tensor, p tensor.LossScaleParams) {
	const op = "update of the loss scale"
	check(state.DType() == tensor.F64 && state.Elems() == tensor.LossScaleCount, op, "the state %v", state)
	check(scalars.DType() == tensor.F64 && scalars.Elems() == tensor.ScalarCount, op, "the scalars %v", scalars)
	s, o := tensor.Host[float64](state), tensor.Host[float64](scalars)
	if o[tensor.ScalarTokens] <= 0 {
		return
	}
	scale := s[tensor.LossScaleScale]
	switch overflow := o[tensor.ScalarApply] == 0; {
	case overflow && s[tensor.LossScaleHysteresis] > 1:
		s[tensor.LossScaleHysteresis]--
		s[tensor.LossScaleGoodSteps] = 0
	case overflow:
		scale = max(p.Min, scale*p.Backoff)
		s[tensor.LossScaleGoodSteps] = 0
	default:
		s[tensor.LossScaleGoodSteps]++
		grows := s[tensor.LossScaleGoodSteps] >= float64(p.Window)
		if grows {
			s[tensor.LossScaleGoodSteps] = 0
			scale *= p.Growth
		}
		if grows || p.Consecutive {
			s[tensor.LossScaleHysteresis] = float64(p.Hysteresis)
		}
	}
	if scale <= math.MaxFloat32 {
		s[tensor.LossScaleScale] = scale
	}
	s[tensor.LossScaleGrad] = s[tensor.LossScaleScale] * p.Unit
}
