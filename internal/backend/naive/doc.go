// Package naive is the specification of tensor.Backend: the operations of tensor.Core as plain
// loops in float64 on whatever element type the tensors have, and of composites the formulas of
// tensor/compose. Attention, whose formula goes over all pairs of rows at once, is defined here row by
// row. It is slow and for tests: other backends are compared with it, and derivatives are checked
// on it by central differences, since it takes tensors of F64 everywhere.
package naive
