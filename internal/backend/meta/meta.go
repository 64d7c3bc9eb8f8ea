// Package meta is a backend that only counts. Tensors have shapes but no storage, and operations do
// nothing, so package planner runs a model's and the engine's own code and reads memory from the
// Meter. Composites that are formulas on the cpu backend are formulas here too, to count the same
// bytes.
package meta

import (
	"trireme/tensor"
	"trireme/tensor/compose"
)

// Backend counts live bytes by category, FLOPs of matrix products and attention, and operations with the bytes of
// their operands.
type Backend struct {
	compose.Ops
	Block    int // tensor.BlockBytes of the backend that it stands for
	meter    tensor.Meter
	products float64
	pairs    float64
	attended float64
	moved    float64
	state    float64
	calls    int64
}

var _ tensor.Backend = (*Backend)(nil)

func New() *Backend {
	b := &Backend{Block: tensor.DefaultBlockBytes}
	b.Ops = compose.NewOps(b)
	return b
}

// Name is meta.
func (b *Backend) Name() string { return "meta" }

// BlockBytes is Block.
func (b *Backend) BlockBytes() int { return b.Block }

// Meter counts live tensors.
func (b *Backend) Meter() *tensor.Meter { return &b.meter }

// IsMeta is true: tensors have no storage.
func (b *Backend) IsMeta() bool { return true }

// Work is the FLOPs of matrix products and attention so far, including attention's masked half.
func (b *Backend) Work() float64 { return b.products + b.pairs }

// Products is the FLOPs of matrix products so far.
func (b *Backend) Products() float64 { return b.products }

// Attended is the FLOPs of attention so far, without causal attention's masked half.
func (b *Backend) Attended() float64 { return b.attended }

// Moved is the bytes of the operands of all operations so far but matrix products, as if each were read or written
// in memory once, without State.
func (b *Backend) Moved() float64 { return b.moved }

// State is the bytes of operands as Moved, of those that are parameters, gradients or optimizer state.
func (b *Backend) State() float64 { return b.state }

// Calls is the number of operations so far.
func (b *Backend) Calls() int64 { return b.calls }

// touch counts an operation with these operands; nil is none.
func (b *Backend) touch(operands ...*tensor.Tensor) {
	b.calls++
	for _, t := range operands {
		if t != nil {
			b.move(t, 1)
		}
	}
}

// move counts an operand that is read or written times times.
func (b *Backend) move(t *tensor.Tensor, times float64) {
	switch t.Buffer().Cat {
	case tensor.Params, tensor.Grads, tensor.Master, tensor.Optimizer, tensor.Gathered, tensor.Buckets:
		b.state += times * float64(t.Bytes())
	default:
		b.moved += times * float64(t.Bytes())
	}
}

// New makes a tensor without storage.
func (b *Backend) New(cat tensor.Category, dt tensor.DType, shape ...int) *tensor.Tensor {
	n := tensor.Shape(shape).Elems() * dt.Size()
	b.meter.Add(cat, int64(n))
	return tensor.Of(tensor.NewBuffer(nil, n, cat, func(buf *tensor.Buffer) { b.meter.Add(buf.Cat, -int64(buf.Size)) }), dt, 0, shape...)
}

// Close does nothing.
func (b *Backend) Close() error { return nil }

// The operations of tensor.Backend.

func (b *Backend) Upload(*tensor.Tensor, []byte)                                 {}
func (b *Backend) Download(dst []byte, _ *tensor.Tensor)                         { clear(dst) }
func (b *Backend) Sync()                                                         {}
func (b *Backend) Barrier(...*tensor.Tensor)                                     {}
func (b *Backend) Fill(x *tensor.Tensor, _ float64)                              { b.touch(x) }
func (b *Backend) Copy(x, y *tensor.Tensor)                                      { b.touch(x, y) }
func (b *Backend) Normal(x *tensor.Tensor, _ tensor.RandKey, _ int64, _ float64) { b.touch(x) }
func (b *Backend) AddBias(x, y, z *tensor.Tensor)                                { b.touch(x, y, z) }
func (b *Backend) BiasGrad(x, y *tensor.Tensor, _ bool)                          { b.touch(x, y) }
func (b *Backend) Add(x, y, z *tensor.Tensor)                                    { b.touch(x, y, z) }
func (b *Backend) ScaleBy(x, y, z *tensor.Tensor)                                { b.touch(x, y, z) }
func (b *Backend) AddScaled(x, y *tensor.Tensor, _ float64)                      { b.touch(x, y) }
func (b *Backend) SwiGLU(x, y, z *tensor.Tensor)                                 { b.touch(x, y, z) }
func (b *Backend) SwiGLUBackward(x, y, z, u, v *tensor.Tensor)                   { b.touch(x, y, z, u, v) }
func (b *Backend) GELU(x, y *tensor.Tensor, _ bool)                              { b.touch(x, y) }
func (b *Backend) GELUBackward(x, y, z *tensor.Tensor, _ bool)                   { b.touch(x, y, z) }
func (b *Backend) Tanh(x, y *tensor.Tensor)                                      { b.touch(x, y) }
func (b *Backend) TanhBackward(x, y, z *tensor.Tensor)                           { b.touch(x, y, z) }
func (b *Backend) CountClasses(x, y, z *tensor.Tensor)                           { b.touch(x, y, z) }
func (b *Backend) HeadRMSNorm(x, y, z, u *tensor.Tensor, _ int, _ float64)       { b.touch(x, y, z, u) }
func (b *Backend) Dropout(x, y *tensor.Tensor, _ tensor.RandKey, z *tensor.Tensor, _ float64) {
	b.touch(x, y, z)
}
func (b *Backend) Rope(x, y, z, u, v *tensor.Tensor, _ int, _ bool)   { b.touch(x, y, z, u, v) }
func (b *Backend) RMSNorm(x, y, z, u, v, w *tensor.Tensor, _ float64) { b.touch(x, y, z, u, v, w) }
func (b *Backend) RecomputeRMSNorm(x, y, z, u *tensor.Tensor)         { b.touch(x, y, z, u) }
func (b *Backend) RMSNormBackward(x, y, z, u, v, w, p *tensor.Tensor, _ bool) {
	b.touch(x, y, z, u, v, w, p)
}
func (b *Backend) LayerNorm(x, y, z, u, v, w, p, q *tensor.Tensor, _ float64) {
	b.touch(x, y, z, u, v, w, p, q)
}
func (b *Backend) RecomputeLayerNorm(x, y, z, u, v, w *tensor.Tensor) { b.touch(x, y, z, u, v, w) }

// GatherRows counts the rows, not the table that they are from.
func (b *Backend) GatherRows(dst, _, ids *tensor.Tensor) { b.touch(dst, dst, ids) }

// ScatterAdd counts the rows, and the table if it is filled.
func (b *Backend) ScatterAdd(dst, src, ids *tensor.Tensor, _ int, accumulate bool) {
	b.touch(src, src, src, ids)
	if !accumulate {
		b.move(dst, 1)
	}
}

func (b *Backend) WriteRows(x, y, z *tensor.Tensor)                 { b.touch(x, y, z) }
func (b *Backend) Swap(_, _ *tensor.Tensor)                         {}
func (b *Backend) Iota(x *tensor.Tensor, _ int)                     { b.touch(x) }
func (b *Backend) Unary(x, y *tensor.Tensor, _ tensor.UnaryOp)      { b.touch(x, y) }
func (b *Backend) Binary(x, y, z *tensor.Tensor, _ tensor.BinaryOp) { b.touch(x, y, z) }
func (b *Backend) Select(x, y, z, u *tensor.Tensor)                 { b.touch(x, y, z, u) }
func (b *Backend) Reduce(x, y *tensor.Tensor, _ int, _ tensor.BinaryOp, _ tensor.DType) {
	b.touch(x, y)
}
func (b *Backend) Words(x, y *tensor.Tensor, _ tensor.RandKey) { b.touch(x, y) }
func (b *Backend) ScatterRows(x, y *tensor.Tensor)             { b.touch(x, y) }
func (b *Backend) CrossEntropy(x, y, z *tensor.Tensor, _ bool) { b.touch(x, y, z) }
func (b *Backend) ExactSquares(x, y, z *tensor.Tensor)         { b.touch(x, y, z) }
func (b *Backend) ExactAdd(x, y *tensor.Tensor)                { b.touch(x, y) }
func (b *Backend) ExactValues(x, y *tensor.Tensor)             { b.touch(x, y) }
func (b *Backend) StepScalars(x, y, z, u, v, w *tensor.Tensor) { b.touch(x, y, z, u, v, w) }
func (b *Backend) LayerNormBackward(x, y, z, u, v, w, p, q, r *tensor.Tensor, _ bool) {
	b.touch(x, y, z, u, v, w, p, q, r)
}

// MatMul counts 2 M N K, and no operands: the rate of products includes them.
func (b *Backend) MatMul(dst, x, _ *tensor.Tensor, op tensor.MatMulOp) {
	b.touch()
	k := x.Width()
	if op.TransA {
		k = x.Dim(-2)
	}
	b.products += 2 * float64(dst.Elems()) * float64(k)
}

// MatMulQuantized counts as MatMul does.
func (b *Backend) MatMulQuantized(dst, x, _, _ *tensor.Tensor) {
	b.touch()
	b.products += 2 * float64(dst.Elems()) * float64(x.Width())
}

// GatherQuantized counts the rows, not the matrix that they are from.
func (b *Backend) GatherQuantized(dst, _, _, ids *tensor.Tensor) { b.touch(dst, dst, ids) }

// pairs is the FLOPs of one product over all pairs of positions, with sequences of maximum length.
func pairs(q *tensor.Tensor, p tensor.AttentionParams) float64 {
	return 2 * float64(q.Elems()) * float64(p.MaxSeqLen)
}

// Attention counts two products: scores, and weighted values.
func (b *Backend) Attention(x, y, q, z, u, v *tensor.Tensor, p tensor.AttentionParams) {
	b.touch(x, y, q, z, u, v)
	b.attend(2*pairs(q, p), p)
}

// attend counts FLOPs over all pairs of positions. Backends skip the masked half of causal attention.
func (b *Backend) attend(flops float64, p tensor.AttentionParams) {
	b.pairs += flops
	if p.Causal {
		flops /= 2
	}
	b.attended += flops
}

func (b *Backend) AttentionDecode(_, _, _, _, _ *tensor.Tensor, _ tensor.AttentionParams)          {}
func (b *Backend) AttentionDecodeQuantized(_, _, _, _, _ *tensor.Tensor, _ tensor.AttentionParams) {}
func (b *Backend) WriteRowsQuantized(x, y, z, u *tensor.Tensor)                                    { b.touch(x, y, z, u) }

// AttentionBackward counts five products: the scores, and two gradients for each product of
// Attention.
func (b *Backend) AttentionBackward(x, y, z, u, v, w, q, k, m, n *tensor.Tensor, p tensor.AttentionParams) {
	b.touch(x, y, z, u, v, w, q, k, m, n)
	b.attend(5*pairs(q, p), p)
}

func (b *Backend) HeadRMSNormBackward(x, y, z, u, v, w *tensor.Tensor, _ int, _ bool) {
	b.touch(x, y, z, u, v, w)
}

func (b *Backend) Update(_ tensor.UpdateRule, p *tensor.Tensor, state []*tensor.Tensor, g, ends, hyper, scalars *tensor.Tensor) {
	b.touch(p, p, g, ends, hyper, scalars)
	for _, s := range state {
		b.move(s, 2)
	}
}

func (b *Backend) UpdateLossScale(x, y *tensor.Tensor, _ tensor.LossScaleParams) { b.touch(x, y) }
