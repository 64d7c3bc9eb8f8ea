// Package tensor defines element types, shapes, tensors, their memory, and the Backend interface
// that computes on them.
//
// A Tensor is a handle: a type, a shape and an offset in a Buffer. Operations are methods of a
// Backend: cpu runs them, naive specifies them in float64, meta counts them, and record traces one
// training step for a compiler. No operation except Download returns a value to the host, shapes
// never depend on values, and everything that changes from step to step (learning rate, token
// counts, random keys) enters through Upload.
//
// Operations write to destinations, their first arguments; the signatures of Backend mark them
// (Out, InOut, Acc). An operation writes a range of a buffer, not a handle: views are free, ranges
// may be written in parts through any view, and a read sees the last write to each element. A
// recording backend gives each written range a new version.
//
// Layout is row-major with a contiguous last dimension. A two-dimensional tensor may have a row
// stride larger than its width (see Cols). Letters in comments: B batch, T positions, N rows (B*T),
// D width, H heads, K key and value heads, E head size, F feed-forward width, V vocabulary.
package tensor
