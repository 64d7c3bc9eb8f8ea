package cpu

import (
	"testing"

	"trireme/internal/backend/naive"
	"trireme/internal/impl"
	"trireme/tensor"
)

// TestAgreesWithNaive runs the operations on this backend and on the specification with the
// same numbers; what it compares are the roles of the arguments more than the digits.
func TestAgreesWithNaive(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		b := open(t, 2)
		for _, dt := range []tensor.DType{tensor.F32, tensor.BF16} {
			got, want := sweep(b, b, dt), sweep(b, naive.New(), dt)
			for i := range want {
				near(t, want[i].name, wide(b, got[i].t), wide(b, want[i].t), 10*tolerance(dt))
			}
		}
	})
}

type outcome struct {
	name string
	t    *tensor.Tensor
}

// sweep makes its inputs with source and runs on b.
func sweep(source *Backend, b tensor.Backend, dt tensor.DType) (out []outcome) {
	const n, d, v = 70, 24, 50
	seed := uint64(0)
	in := func(dt tensor.DType, shape ...int) *tensor.Tensor {
		seed++
		t := b.New(tensor.Activations, dt, shape...)
		b.Upload(t, tensor.HostBytes(random(source, seed, dt, 1, shape...)))
		return t
	}
	keep := func(name string, ts ...*tensor.Tensor) {
		for _, t := range ts {
			c := b.New(tensor.Activations, t.DType(), t.Rows(), t.Width())
			b.Copy(c, t)
			out = append(out, outcome{name, c})
		}
	}
	x, y, g, w, bias, o, o2 := in(dt, n, d), in(dt, n, d), in(dt, n, d), in(dt, d), in(dt, d), in(dt, n, d), in(dt, n, d)
	rstd, mean := in(tensor.F32, n), in(tensor.F32, n)
	joined := in(dt, n, 2*d)
	gate, up := joined.Cols(0, d), joined.Cols(d, 2*d)
	b.SwiGLU(o, gate, up)
	keep("swiglu", o)
	b.SwiGLUBackward(gate, up, g, gate, up)
	keep("swiglu backward", joined)
	b.AddScaled(o, x, -0.5)
	keep("add scaled", o)
	for _, tanh := range []bool{false, true} {
		b.GELU(o, x, tanh)
		b.GELUBackward(o2, g, x, tanh)
		keep("gelu", o, o2)
	}
	b.RMSNorm(o, rstd, o2, x, y, w, 1e-5)
	keep("rms norm", o, o2, rstd)
	b.RMSNormAgain(o, x, rstd, w)
	keep("rms norm again", o)
	dw, db := in(dt, d), in(dt, d)
	b.RMSNormBackward(o, dw, g, y, x, rstd, w, true)
	b.RMSNormBackward(g, nil, g, nil, x, rstd, w, true) // in place
	keep("rms norm backward", o, dw, g)
	b.LayerNorm(o, mean, rstd, nil, x, nil, w, bias, 1e-5)
	keep("layer norm", o, mean, rstd)
	b.LayerNormAgain(o2, y, mean, rstd, w, bias)
	keep("layer norm again", o2)
	b.LayerNormBackward(y, dw, db, g, y, x, mean, rstd, w, false) // onto the residual's gradient
	keep("layer norm backward", y, dw, db)
	cos, sin := in(tensor.F32, n, 4), in(tensor.F32, n, 4)
	positions := b.New(tensor.Workspace, tensor.I32, n)
	for i := range n {
		tensor.Host[int32](positions)[i] = int32(i % 10)
	}
	b.Rope(x, x, cos, sin, positions, 8, true)
	keep("rope", x)
	ids := b.New(tensor.Workspace, tensor.I32, n)
	at := tensor.Host[int32](ids)
	for i := range at {
		at[i] = int32(i * i % 13)
	}
	table := in(dt, v, d)
	b.Gather(o, table, ids)
	b.ScatterAdd(table, g, ids, tensor.NoPadding, true)
	keep("embedding", o, table)
	at[3], at[9] = -100, -1
	logits, loss := in(dt, n, v), b.New(tensor.Workspace, tensor.F64, 1)
	b.Fill(loss, 2)
	b.CrossEntropy(loss, logits, ids, true)
	squares, sum := b.New(tensor.Workspace, tensor.I64, tensor.ExactWords), b.New(tensor.Workspace, tensor.I64, tensor.ExactWords)
	b.Fill(squares, 0)
	b.Fill(sum, 0)
	b.ExactSquares(squares, logits, nil)
	b.ExactAdd(sum, loss)
	keep("cross entropy", logits)
	tokens, limit, scalars, hyper := b.New(tensor.Workspace, tensor.I64, 1), b.New(tensor.Workspace, tensor.F64, 1), b.New(tensor.Workspace, tensor.F64, tensor.ScalarCount), b.New(tensor.Workspace, tensor.F64, tensor.AdamCount)
	b.Fill(tokens, n-2)
	b.Fill(limit, 0.01)
	b.Fill(hyper, 0.1)
	b.StepScalars(scalars, squares, sum, tokens, limit, nil)
	shown := in(tensor.F32, tensor.ScalarCount)
	for i, s := range tensor.Host[float64](scalars) {
		tensor.Host[float32](shown)[i] = float32(s)
	}
	keep("step scalars", shown)
	p, m, q := in(tensor.F32, n, d), in(tensor.F32, n, d), in(tensor.F32, n, d)
	b.Fill(q, 0.5)
	adamw(b, p, m, q, g, hyper, scalars)
	keep("adamw", p, m, q)
	return out
}
