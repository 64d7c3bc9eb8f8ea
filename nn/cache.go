package nn

import (
	"fmt"
	"slices"

	"trireme/autograd"
	"trireme/tensor"
)

// KVCache holds keys and values of one sequence. It serves passes without gradients: a prefill of
// several rows from row 0, or one row that sees the rows before it. On a compiling backend, all
// passes of one length run one program.
type KVCache struct {
	Cap int // rows

	// At (I32 [1]) is the first row of a pass, and its position.
	At *tensor.Tensor

	layers []*tensor.Tensor // per layer [Cap 2K*E], keys and values in columns
	scales []*tensor.Tensor // per layer F32 [Cap 2K], with U8
	b      tensor.Backend
}

// NewKVCache returns a cache for rows of 2K*E columns, K key and value heads of size E, in each layer. Values are rounded
// to dtype when they are stored; U8 stores 8 bits and a scale per row and head (tensor.QuantizeBlocks).
func NewKVCache(b tensor.Backend, dtype tensor.DType, layers, rows, k, e int) *KVCache {
	c := &KVCache{Cap: rows, b: b}
	for range layers {
		c.layers = append(c.layers, b.New(tensor.Activations, dtype, rows, 2*k*e))
		if dtype == tensor.U8 {
			c.scales = append(c.scales, b.New(tensor.Activations, tensor.F32, rows, 2*k))
		}
	}
	return c
}

// Release frees the memory.
func (c *KVCache) Release() {
	for _, t := range slices.Concat(c.layers, c.scales) {
		t.Release()
	}
	c.layers, c.scales = nil, nil
}

// Attend is attention in one layer: of qkv [N (H+2K)*E], or of q [N H*E] and kv [N 2K*E], over the
// pass's rows, and for one row the cached rows before it. A nil cache stores nothing.
func (c *KVCache) Attend(t *autograd.Tape, layer int, docs *tensor.Tensor, p tensor.AttentionParams, in ...*autograd.Var) *autograd.Var {
	if c != nil {
		last := in[len(in)-1].Value
		kv := last.Cols(last.Width()-2*p.KVHeads*p.E, last.Width())
		if layer >= len(c.layers) || c.layers[layer].Width() != kv.Width() {
			panic(fmt.Sprintf("nn: a KV cache of %d layers has no layer %d of width %d. try: Layers of model.Info.Attention, KVHeads and HeadDim", len(c.layers), layer, kv.Width()))
		}
		cached := c.layers[layer]
		var scales *tensor.Tensor
		if c.scales != nil {
			scales = c.scales[layer]
			c.b.WriteRowsQuantized(cached, scales, kv, c.At)
		} else {
			c.b.WriteRows(cached, kv, c.At)
		}
		if kv.Rows() == 1 {
			return t.AttentionDecode(in[0], cached, scales, c.At, p)
		}
	}
	if len(in) == 1 {
		return t.Attention(in[0], docs, p)
	}
	return t.CrossAttention(in[0], in[1], docs, p)
}
