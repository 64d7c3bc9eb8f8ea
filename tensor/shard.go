package tensor

import "iter"

// Shard is the part of a named tensor that one rank holds: a box, addressed by the tensor's own
// indices and so independent of world size and strategy. The parallel package makes shards;
// checkpoint stores and loads them.
type Shard struct {
	Name  string // the tensor's name, for example model.layers.0.self_attn.q_proj.weight
	DType DType
	Shape Shape // of the whole tensor
	Box   Box
	Data  *Tensor // the box's elements in its own row-major order, contiguous; of any shape
}

// Runs walks the shard by runs of the whole tensor: elements from X of Data on are those from Y of
// the whole on.
func (s Shard) Runs() iter.Seq[Run] { return s.Box.Runs(s.Box, Whole(s.Shape)) }
