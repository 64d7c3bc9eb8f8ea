// Package tensor holds what every layer above speaks in: element types, shapes,
// tensors, the memory they live in, and the Backend interface that computes on them.
//
// A Tensor is a handle: a static type, a static shape, and a place in a Buffer. It does
// not compute. Operations are methods of a Backend: cpu runs them, naive defines them in float64,
// meta counts them, and record lists those of one training step, so that a compiler can make one
// program of them. No operation returns a value to the host except Download, shapes never depend
// on values, and what changes from step to step (learning rate, token counts, random keys) enters
// through Upload.
//
// Operations are written in destination-passing style: the first arguments are written, the rest
// are read; the signatures of Backend name them (Out, InOut, Acc). What is written is a range of a
// buffer, not a handle: views are made freely, a range may be written several times, in parts and
// by way of any view, and a read sees the last write before it, of each element. Whoever records
// gives each range that is written a new version, and each read the version that it finds.
//
// Layout: row-major. The last dimension is contiguous; a two-dimensional tensor may have a
// row stride larger than its width (a column range of a wider matrix, see Cols).
// Letters used in comments: B batch, T positions, N rows (B*T), D width, H heads, K key and
// value heads, E head size, F feed-forward width, V vocabulary.
package tensor
