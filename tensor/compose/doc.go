// Package compose defines tensor.Backend's composites as formulas in operations of tensor.Core.
// NewBackend makes a backend of a core alone. A backend with native composites embeds Ops and
// overrides its methods:
//
//	type Backend struct {
//		compose.Ops
//		...
//	}
//
//	b.Ops = compose.NewOps(b)
//
// The formulas favor clarity over speed: one pass over memory per operation, with intermediate
// values in F32, or F64 if an operand is. Control flow depends on shapes, never on values, so they
// can be recorded. Scope is a notation for such formulas, in other packages too.
package compose
