// Package backendtest is the conformance suite of tensor.Backend. A new backend is done when it
// passes Suite.Run.
//
// Every operation runs with the same numbers on the backend and, in float64, on naive, the
// specification: with F32, BF16 and mixed operands, odd sizes, one row and none, strided rows, nil
// options, and aliased operands, where the contract allows them. Guards around operands, and
// inputs, must stay unchanged. The meter must match New. The suite also runs on the formulas of
// tensor/compose over a bare core.
package backendtest
