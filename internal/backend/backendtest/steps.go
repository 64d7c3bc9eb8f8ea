package backendtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"trireme/tensor"
)

// steps cover a step's sums. Accumulators are compared by their values.
func steps(add adder) {
	zero := func(n int, dt tensor.DType) arg { return out(n).of(dt).like(0).unread() }
	inf, nan := math.Inf(1), math.NaN()
	for name, c := range map[string]struct {
		loss, grad, limit, tokens float64
	}{
		"no limit": {2.5, 1, 0, 12}, "clipped": {2.5, 1, 0.01, 12}, "well below the limit": {2.5, 1e-3, 1e6, 12}, "hardly any": {2.5, 1e-6, 1e-7, 12}, "zero": {0, 0, 1, 3},
		"no tokens": {0, 0, 1, 0}, "loss is NaN": {nan, 1, 1, 12}, "loss is infinite": {inf, 1, 1, 12},
		"gradient is NaN": {1, nan, 1, 12}, "gradient is infinite": {1, inf, 0, 12}, "gradient is large": {1, 3e38, 1, 12}, "gradient is small": {1, 1e-44, 1, 12},
	} {
		for _, n := range []int{0, 1, 64, 1001} {
			if n == 0 && c.grad != 1 {
				continue
			}
			add(fmt.Sprintf("step scalars/%s, %d", name, n), func(b tensor.Backend, x tensors) {
				b.ExactSquares(x[1], x[3], nil)
				b.ExactAdd(x[2], x[4])
				b.ExactAdd(x[2], x[4])
				b.StepScalars(x[0], x[1], x[2], x[5], x[6], nil)
			}, out(tensor.ScalarCount).of(tensor.F64), zero(tensor.ExactWords, tensor.I64), zero(tensor.ExactWords, tensor.I64),
				in(n).of(tensor.F32).like(c.grad, 0.5*c.grad, -c.grad), in(3).of(tensor.F64).like(c.loss, c.loss/3, -c.loss/4),
				in(1).of(tensor.I64).like(c.tokens), in(1).of(tensor.F64).like(c.limit))
		}
	}
	for _, lossGrad := range []float64{1, 0x1p-9, 4096} {
		add(fmt.Sprint("step scalars, loss gradient ", lossGrad), func(b tensor.Backend, x tensors) {
			b.ExactSquares(x[1], x[3], nil)
			b.StepScalars(x[0], x[1], x[2], x[4], x[5], x[6])
		}, out(tensor.ScalarCount).of(tensor.F64), zero(tensor.ExactWords, tensor.I64), zero(tensor.ExactWords, tensor.I64),
			in(70).of(tensor.F32).like(0.5, -1, 3), in(1).of(tensor.I64).like(12), in(1).of(tensor.F64).like(0.01), in(1).of(tensor.F64).like(lossGrad))
	}
	add("exact squares of groups", func(b tensor.Backend, x tensors) {
		b.ExactSquares(x[1], x[2], x[3])
		b.ExactSquares(x[1], x[2], x[3])
		b.ExactValues(x[0], x[1])
	}, out(3).of(tensor.F64), zero(3*tensor.ExactWords, tensor.I64), in(192).of(tensor.F32), in(3).of(tensor.I64).like(64, 64, 192))
	scalers(add)
	add("exact values", func(b tensor.Backend, x tensors) {
		b.ExactAdd(x[1].Flat(0, tensor.ExactWords), x[2])
		b.ExactAdd(x[1].Flat(tensor.ExactWords, 2*tensor.ExactWords), x[3])
		b.ExactValues(x[0], x[1])
	}, out(2).of(tensor.F64), zero(2*tensor.ExactWords, tensor.I64), in(3).of(tensor.F64).like(1e-9, 2, -0.25), in(1).of(tensor.F64).like(3))
	for _, apply := range []float64{0, 1} {
		for _, n := range []int{0, 1, 63, 2500} {
			for _, g := range []tensor.DType{tensor.F32, tensor.BF16} {
				for _, state := range []tensor.DType{tensor.F32, tensor.BF16} {
					for name, u := range updates {
						args := []arg{
							out(n).of(tensor.F32), in(n).of(g), in(4).of(tensor.I64).like(0, float64(n/3), float64(n/3), float64(n)),
							inputs(4, append(slices.Clone(u.hyper), 99)), in(tensor.ScalarCount).of(tensor.F64).like(2, 1, 0.25, apply, 12),
						}
						for i := range u.rule.States() {
							s := out(n).of(state)
							if tensor.Unsigned(u.rule, i) {
								s = s.like(0.3, 1.2, 1e-9)
							}
							args = append(args, s)
						}
						add(fmt.Sprintf("update/%s/%d %v %v apply %v", name, n, g, state, apply), func(b tensor.Backend, x tensors) {
							b.Update(u.rule, x[0], x[5:], x[1], x[2], x[3], x[4])
						}, args...)
					}
				}
			}
		}
	}
	for name, u := range updates {
		const parts, n = 3, 21
		args := []arg{
			out(parts, n).of(tensor.F32), in(parts, n).of(tensor.F32), in(3).of(tensor.I64).like(0, 9, n),
			inputs(3, u.hyper), in(tensor.ScalarCount).of(tensor.F64).like(2, 1, 0.25, 1, 12),
		}
		for i := range u.rule.States() {
			s := out(parts, n).of(tensor.F32)
			if tensor.Unsigned(u.rule, i) {
				s = s.like(0.3, 1.2, 1e-9)
			}
			args = append(args, s)
		}
		add(fmt.Sprintf("update/%s/of parts", name), func(b tensor.Backend, x tensors) {
			b.Update(u.rule, x[0], x[5:], x[1], x[2], x[3], x[4])
		}, args...)
	}
	for name, u := range updates {
		for _, n := range []int{1, tensor.StateBlock, 2500} {
			first := min(n, 2*tensor.StateBlock)
			args := []arg{
				out(n).of(tensor.F32), in(n).of(tensor.BF16), in(3).of(tensor.I64).like(0, float64(first), float64(n)),
				inputs(3, u.hyper), in(tensor.ScalarCount).of(tensor.F64).like(2, 1, 0.25, 1, 12),
			}
			blocks := (n + tensor.StateBlock - 1) / tensor.StateBlock
			for range u.rule.States() { // codes may differ by one after rounding
				args = append(args, out(n).of(tensor.U8).between(0, 256).unread())
			}
			for range u.rule.States() {
				args = append(args, out(blocks).of(tensor.F32).like(0.5, 0, 3))
			}
			add(fmt.Sprintf("update/%s/%d of 8 bits", name, n), func(b tensor.Backend, x tensors) {
				b.Update(u.rule, x[0], x[5:], x[1], x[2], x[3], x[4])
			}, args...)
		}
	}
}

// inputs are rows of hyper, smaller for each group.
func inputs(groups int, hyper []float64) arg {
	a := in(groups, len(hyper)).of(tensor.F64)
	a.value = func(_ *rand.Rand, i int) float64 { return hyper[i%len(hyper)] * (1 - 0.2*float64(i/len(hyper))) }
	return a
}

// updates are rules with a group's inputs.
var updates = map[string]struct {
	rule  tensor.UpdateRule
	hyper []float64
}{
	"adamw":        {tensor.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8}, []float64{1e-2, 0.1, 0.1, 0.05}},
	"sgd":          {tensor.SGD{}, []float64{1e-2, 0.1, 1}},
	"momentum":     {tensor.SGD{Momentum: 0.9}, []float64{1e-2, 0.1, 0.8}},
	"nesterov":     {tensor.SGD{Momentum: 0.9, Nesterov: true}, []float64{1e-2, 0, 1}},
	"adam":         {tensor.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, L2: true}, []float64{1e-2, 0.1, 0.1, 0.05}},
	"adagrad":      {tensor.Adagrad{Eps: 1e-8}, []float64{1e-2, 0.1, 0.2}},
	"average":      {tensor.Average{}, []float64{1e-2, 0.1, 0.25}},
	"adafactor":    {tensor.Adafactor{Eps: 1e-30}, []float64{1e-2, 0.1, 1, 0.7}},
	"lion":         {tensor.Lion{Beta1: 0.9, Beta2: 0.99}, []float64{1e-2, 0.1}},
	"direction":    {tensor.Momentum{Beta: 0.95, Nesterov: true}, []float64{1e-2, 0.1}},
	"mean":         {tensor.Momentum{Beta: 0.4}, []float64{1e-2, 0.1}},
	"descent":      {tensor.Descent{}, []float64{1e-2, 0.1, 0.7}},
	"mean descent": {tensor.Descent{Beta: 0.9}, []float64{1e-2, 0.1, 0.7}},
	"lamb":         {tensor.LAMB{Beta1: 0.9, Beta2: 0.999, Eps: 1e-6}, []float64{1e-2, 0.1}},
	"lamb inside":  {tensor.LAMB{Beta1: 0.9, Beta2: 0.999, Eps: 1e-6, EpsInside: true}, []float64{1e-2, 0.1}},
}
