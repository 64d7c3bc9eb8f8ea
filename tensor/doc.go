// Package tensor holds what every layer above speaks in: element types, shapes,
// tensors, the memory they live in, and the Backend interface that computes on them.
//
// A Tensor is a handle: a static type, a static shape, and a place in a Buffer. It does
// not compute. Operations are methods of a Backend: cpu runs them, naive says in float64 what
// they mean, meta counts them. The interface is made so that another can record one training
// step and turn it into one program, for an accelerator: no operation returns a value to the
// host except Download, shapes never depend on values, and what changes from step to step
// (learning rate, token counts, random keys) enters through Upload.
//
// Operations are written in destination-passing style: the first arguments are written,
// the rest are read. A handle is written once before it is read, except where an operation
// says that it accumulates; a recorder binds the handle to the new value in both cases.
//
// Layout: row-major. The last dimension is contiguous; a two-dimensional tensor may have a
// row stride larger than its width (a column range of a wider matrix, see Cols).
// Letters used in comments: B batch, T positions, N rows (B*T), D width, H heads, K key and
// value heads, E head size, F feed-forward width, V vocabulary.
package tensor
