// Package compose writes tensor.Backend's composites as formulas in operations of tensor.Core.
// A backend that has only a core is completed by Of; one that has some composites of its own
// embeds Ops, and its own methods come first:
//
//	type Backend struct {
//		compose.Ops
//		...
//	}
//
//	b.Ops = compose.NewOps(b)
//
// The formulas are right before they are fast: they hold intermediate values in memory and go
// over them once for each operation. Nothing in them depends on a value, so that they can be
// recorded; what depends on a shape is Go. Values in between are F32, or F64 where an operand is.
//
// Scope is what they are written with, for other code too.
package compose
