package tensor

// Shard is a named tensor's contiguous range of elements that one rank holds, addressed by
// the tensor's own index and so independent of world size and strategy. The parallel
// package makes shards; checkpoint stores and loads them.
type Shard struct {
	Name  string // the tensor's name, for example model.layers.0.self_attn.q_proj.weight
	DType DType
	Shape Shape // of the whole tensor
	First int   // first element of the range, in row-major order
	Count int   // elements in the range
	Data  *Tensor
}
