package tensor

import "iter"

// Shard is one rank's part of a named tensor: a box in the tensor's own indices, independent of
// world size and strategy. Package parallel makes shards, checkpoint stores and loads them.
type Shard struct {
	Name  string // such as model.layers.0.self_attn.q_proj.weight
	DType DType
	Shape Shape // of the full tensor
	Box   Box
	Data  *Tensor // the box's elements in row-major order, contiguous, any shape
}

// Runs iterates over runs of the full tensor: X is an element of Data, Y of the full tensor.
func (s Shard) Runs() iter.Seq[Run] { return s.Box.Runs(s.Box, FullBox(s.Shape)) }
