package cpu

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"testing"

	"trireme/tensor"
)

func TestExactSumsDoNotDependOnTheSplit(t *testing.T) {
	eachSet(t, func(t *testing.T) {
		b := open(t, 2)
		rng := rand.New(rand.NewPCG(1, 2))
		const n = 64*700 + 13
		x := b.New(0, tensor.F32, n)
		xs := tensor.Host[float32](x)
		exact := new(big.Float).SetPrec(2000)
		for i := range xs {
			xs[i] = float32(rng.NormFloat64() * math.Exp(20*rng.NormFloat64()))
			f := new(big.Float).SetPrec(2000).SetFloat64(float64(xs[i]))
			exact.Add(exact, f.Mul(f, f))
		}
		tokens, limit := b.New(0, tensor.I64, 1), reals(b, 0)
		tensor.Host[int64](tokens)[0] = 1
		var first float64
		for round := range 5 {
			total := b.New(0, tensor.I64, tensor.ExactWords)
			b.Fill(total, 0)
			for lo := 0; lo < n; {
				hi := min(n, lo+64*(1+rng.IntN(400)))
				if round == 0 {
					hi = n
				}
				part := b.New(0, tensor.I64, tensor.ExactWords)
				b.Fill(part, 0)
				b.ExactSquares(part, x.Flat(lo, hi), nil)
				for w, v := range tensor.Host[int64](part) {
					tensor.Host[int64](total)[w] += v
				}
				lo = hi
			}
			zero := b.New(0, tensor.I64, tensor.ExactWords)
			b.Fill(zero, 0)
			out := b.New(0, tensor.F64, tensor.ScalarCount)
			b.StepScalars(out, total, zero, tokens, limit, nil)
			got := tensor.Host[float64](out)
			if round == 0 {
				first = got[tensor.ScalarGradNorm]
				want, _ := exact.Sqrt(exact).Float64()
				near(t, "norm", []float64{first}, []float64{want}, 1e-15)
			}
			if got[tensor.ScalarGradNorm] != first {
				t.Fatalf("norm %v in parts, %v at once", got[tensor.ScalarGradNorm], first)
			}
		}
	})
}

func TestStepScalars(t *testing.T) {
	b := open(t, 1)
	acc := func(v ...float64) *tensor.Tensor {
		a := b.New(0, tensor.I64, tensor.ExactWords)
		b.Fill(a, 0)
		b.ExactAdd(a, reals(b, v...))
		return a
	}
	for _, c := range []struct {
		squares, loss, limit float64
		tokens               int64
		want                 [tensor.ScalarCount]float64
	}{
		{16, 6, 0, 2, [...]float64{3, 2, 0.5, 1, 2}},
		{16, 6, 1, 2, [...]float64{3, 2, 0.5 / (2 + 1e-6), 1, 2}},
		{16, 6, 5, 2, [...]float64{3, 2, 0.5, 1, 2}},
		{16, 6, 5, 0, [...]float64{0, 0, 0, 0, 0}},
		{math.Inf(1), 6, 5, 2, [...]float64{3, math.NaN(), 0, 0, 2}},
		{16, math.NaN(), 5, 2, [...]float64{math.NaN(), 2, 0, 0, 2}},
	} {
		out, tokens := b.New(0, tensor.F64, tensor.ScalarCount), b.New(0, tensor.I64, 1)
		tensor.Host[int64](tokens)[0] = c.tokens
		b.StepScalars(out, acc(c.squares), acc(c.loss), tokens, reals(b, c.limit), nil)
		for i, got := range tensor.Host[float64](out) {
			if got != c.want[i] && !(math.IsNaN(got) && math.IsNaN(c.want[i])) {
				t.Errorf("%+v: scalar %d is %v", c, i, got)
			}
		}
	}
}

// adamw updates all elements as one group.
func adamw(b tensor.Backend, p, m, v, g, hyper, scalars *tensor.Tensor) {
	ends := b.New(tensor.Workspace, tensor.I64, 1)
	b.Fill(ends, float64(p.Elems()))
	b.Update(tensor.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8}, p.Flat(0, p.Elems()), []*tensor.Tensor{m, v}, g, ends, hyper, scalars)
	ends.Release()
}

// longs is a tensor of I64.
func longs(b tensor.Backend, v ...int64) *tensor.Tensor {
	t := b.New(tensor.Workspace, tensor.I64, len(v))
	b.Upload(t, tensor.AsBytes(v))
	return t
}

func TestAdamWReference(t *testing.T) {
	oneGoroutine(t)
	const path = "../../../../shared/data/oracles/adamw_quadratic.json"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Skip("no reference trajectories here: ", err)
	}
	var oracle map[string]json.RawMessage
	if err := json.Unmarshal(text, &oracle); err != nil {
		t.Fatal(err)
	}
	eachSet(t, func(t *testing.T) {
		b := open(t, 1)
		for _, wd := range []float64{0, 0.1} {
			var want [][]float64
			if err := json.Unmarshal(oracle[fmt.Sprintf("wd%v_first5", wd)], &want); err != nil {
				t.Fatal(err)
			}
			p, m, v, g := b.New(0, tensor.F32, 3), b.New(0, tensor.F32, 3), b.New(0, tensor.F32, 3), b.New(0, tensor.F32, 3)
			copy(tensor.Host[float32](p), []float32{.1, -.2, -.1})
			b.Fill(m, 0)
			b.Fill(v, 0)
			target := []float32{.4, .2, -.5}
			for s, w := range want {
				for i, x := range tensor.Host[float32](p) {
					tensor.Host[float32](g)[i] = 2 * (x - target[i]) // a third of it is the mean's gradient
				}
				at := float64(s + 1)
				hyper := reals(b, 0.2, wd, 1-math.Pow(0.9, at), 1-math.Pow(0.999, at))
				b.Update(tensor.AdamW{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}, p, []*tensor.Tensor{m, v}, g, longs(b, 3), hyper, reals(b, 0, 0, 1.0/3, 1, 3))
				near(t, fmt.Sprintf("wd %v step %d", wd, s+1), wide(b, p), w, 1e-5)
			}
			before := append([]byte(nil), tensor.HostBytes(p)...)
			adamw(b, p, m, v, g, reals(b, 1, 1, 1, 1), reals(b, 0, 0, 1, 0, 3))
			if !bytes.Equal(before, tensor.HostBytes(p)) {
				t.Error("a skipped step changed the parameters")
			}
		}
	})
}
