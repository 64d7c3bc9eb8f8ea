// Package naive specifies tensor.Backend: operations of tensor.Core as plain loops in float64 on
// any element type, and composites by the formulas of tensor/compose. Attention is written row by
// row here, since its formula materializes all scores. It is slow and for tests: other backends are
// compared with it, and derivatives are checked on F64 tensors by central differences.
package naive
