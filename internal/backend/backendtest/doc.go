// Package backendtest is the conformance suite of tensor.Backend. A new backend is done when
// Suite.Run passes on it.
//
// Every operation runs with the same numbers on the backend and on naive, the specification,
// there in float64: with F32, BF16 and mixed operands, odd sizes, one row and none, row gaps
// where the contract honours them, options that are nil, and operands that are one another
// where it allows that. Around every operand lie guards that must stay as they are, and so must
// operands that are only read. The meter must show what New gave out. The suite runs on the formulas of tensor/compose too, on a backend that
// has only a core.
package backendtest
