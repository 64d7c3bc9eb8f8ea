// Package meta is a backend that only counts. Tensors have shapes but no storage, and operations do
// nothing, so package planner runs a model's and the engine's own code and reads memory from the
// Meter. Composites that are formulas on the cpu backend are formulas here too, to count the same
// bytes.
package meta

import (
	"trireme/tensor"
	"trireme/tensor/compose"
)

// Backend counts live bytes by category, and FLOPs of matrix products and attention.
type Backend struct {
	compose.Ops
	meter tensor.Meter
	work  float64
}

var _ tensor.Backend = (*Backend)(nil)

func New() *Backend {
	b := &Backend{}
	b.Ops = compose.NewOps(b)
	return b
}

// Name is meta.
func (b *Backend) Name() string { return "meta" }

// Meter counts live tensors.
func (b *Backend) Meter() *tensor.Meter { return &b.meter }

// IsMeta is true: tensors have no storage.
func (b *Backend) IsMeta() bool { return true }

// Work is the FLOPs of matrix products and attention so far, including attention's masked half.
func (b *Backend) Work() float64 { return b.work }

// New makes a tensor without storage.
func (b *Backend) New(cat tensor.Category, dt tensor.DType, shape ...int) *tensor.Tensor {
	n := tensor.Shape(shape).Elems() * dt.Size()
	b.meter.Add(cat, int64(n))
	return tensor.Of(tensor.NewBuffer(nil, n, cat, func(buf *tensor.Buffer) { b.meter.Add(buf.Cat, -int64(buf.Size)) }), dt, 0, shape...)
}

// Close does nothing.
func (b *Backend) Close() error { return nil }

// The operations of tensor.Backend.

func (b *Backend) Upload(*tensor.Tensor, []byte)                                              {}
func (b *Backend) Download(dst []byte, _ *tensor.Tensor)                                      { clear(dst) }
func (b *Backend) Sync()                                                                      {}
func (b *Backend) Barrier(...*tensor.Tensor)                                                  {}
func (b *Backend) Fill(*tensor.Tensor, float64)                                               {}
func (b *Backend) Copy(_, _ *tensor.Tensor)                                                   {}
func (b *Backend) Normal(*tensor.Tensor, tensor.RandKey, int64, float64)                      {}
func (b *Backend) AddBias(_, _, _ *tensor.Tensor)                                             {}
func (b *Backend) BiasGrad(_, _ *tensor.Tensor, _ bool)                                       {}
func (b *Backend) Add(_, _, _ *tensor.Tensor)                                                 {}
func (b *Backend) ScaleBy(_, _, _ *tensor.Tensor)                                             {}
func (b *Backend) AddScaled(_, _ *tensor.Tensor, _ float64)                                   {}
func (b *Backend) SwiGLU(_, _, _ *tensor.Tensor)                                              {}
func (b *Backend) SwiGLUBackward(_, _, _, _, _ *tensor.Tensor)                                {}
func (b *Backend) GELU(_, _ *tensor.Tensor, _ bool)                                           {}
func (b *Backend) GELUBackward(_, _, _ *tensor.Tensor, _ bool)                                {}
func (b *Backend) Tanh(_, _ *tensor.Tensor)                                                   {}
func (b *Backend) TanhBackward(_, _, _ *tensor.Tensor)                                        {}
func (b *Backend) CountClasses(_, _, _ *tensor.Tensor)                                        {}
func (b *Backend) HeadRMSNorm(_, _, _, _ *tensor.Tensor, _ int, _ float64)                    {}
func (b *Backend) Dropout(_, _ *tensor.Tensor, _ tensor.RandKey, _ *tensor.Tensor, _ float64) {}
func (b *Backend) Rope(_, _, _, _, _ *tensor.Tensor, _ int, _ bool)                           {}
func (b *Backend) RMSNorm(_, _, _, _, _, _ *tensor.Tensor, _ float64)                         {}
func (b *Backend) RecomputeRMSNorm(_, _, _, _ *tensor.Tensor)                                 {}
func (b *Backend) RMSNormBackward(_, _, _, _, _, _, _ *tensor.Tensor, _ bool)                 {}
func (b *Backend) LayerNorm(_, _, _, _, _, _, _, _ *tensor.Tensor, _ float64)                 {}
func (b *Backend) RecomputeLayerNorm(_, _, _, _, _, _ *tensor.Tensor)                         {}
func (b *Backend) GatherRows(_, _, _ *tensor.Tensor)                                          {}
func (b *Backend) WriteRows(_, _, _ *tensor.Tensor)                                           {}
func (b *Backend) ScatterAdd(_, _, _ *tensor.Tensor, _ int, _ bool)                           {}
func (b *Backend) Swap(_, _ *tensor.Tensor)                                                   {}
func (b *Backend) Iota(*tensor.Tensor, int)                                                   {}
func (b *Backend) Unary(_, _ *tensor.Tensor, _ tensor.UnaryOp)                                {}
func (b *Backend) Binary(_, _, _ *tensor.Tensor, _ tensor.BinaryOp)                           {}
func (b *Backend) Select(_, _, _, _ *tensor.Tensor)                                           {}
func (b *Backend) Reduce(_, _ *tensor.Tensor, _ int, _ tensor.BinaryOp, _ tensor.DType)       {}
func (b *Backend) Words(_, _ *tensor.Tensor, _ tensor.RandKey)                                {}
func (b *Backend) ScatterRows(_, _ *tensor.Tensor)                                            {}
func (b *Backend) CrossEntropy(_, _, _ *tensor.Tensor, _ bool)                                {}
func (b *Backend) ExactSquares(_, _, _ *tensor.Tensor)                                        {}
func (b *Backend) ExactAdd(_, _ *tensor.Tensor)                                               {}
func (b *Backend) ExactValues(_, _ *tensor.Tensor)                                            {}
func (b *Backend) StepScalars(_, _, _, _, _, _ *tensor.Tensor)                                {}
func (b *Backend) LayerNormBackward(_, _, _, _, _, _, _, _, _ *tensor.Tensor, _ bool)         {}

// MatMul counts 2 M N K.
func (b *Backend) MatMul(dst, x, _ *tensor.Tensor, op tensor.MatMulOp) {
	k := x.Width()
	if op.TransA {
		k = x.Dim(-2)
	}
	b.work += 2 * float64(dst.Elems()) * float64(k)
}

// pairs is the FLOPs of one product over all pairs of positions, with sequences of maximum length.
func pairs(q *tensor.Tensor, p tensor.AttentionParams) float64 {
	return 2 * float64(q.Elems()) * float64(p.MaxSeqLen)
}

// Attention counts two products: scores, and weighted values.
func (b *Backend) Attention(_, _, q, _, _, _ *tensor.Tensor, p tensor.AttentionParams) {
	b.work += 2 * pairs(q, p)
}

func (b *Backend) AttentionDecode(_, _, _, _, _ *tensor.Tensor, _ tensor.AttentionParams) {}

// AttentionBackward counts five products: the scores, and two gradients for each product of
// Attention.
func (b *Backend) AttentionBackward(_, _, _, _, _, _, q, _, _, _ *tensor.Tensor, p tensor.AttentionParams) {
	b.work += 5 * pairs(q, p)
}

func (b *Backend) HeadRMSNormBackward(_, _, _, _, _, _ *tensor.Tensor, _ int, _ bool) {}

func (b *Backend) Update(_ tensor.UpdateRule, _ *tensor.Tensor, _ []*tensor.Tensor, _, _, _, _ *tensor.Tensor) {
}

func (b *Backend) UpdateLossScale(_, _ *tensor.Tensor, _ tensor.LossScaleParams) {}
