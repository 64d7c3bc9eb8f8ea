// Package naive is the specification of tensor.Backend: every operation as plain loops in
// float64 on whatever element type the tensors have. It is slow and for tests: other backends
// are compared with it, and derivatives are checked on it by central differences, since it
// takes tensors of F64 everywhere.
package naive
