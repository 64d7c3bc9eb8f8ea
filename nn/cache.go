package nn

import (
	"trireme/autograd"
	"trireme/tensor"
)

// KVCache holds keys and values of one sequence. It serves passes without gradients: a prefill of
// any number of rows, then one row per pass. After each pass the caller adds its rows to Rows.
type KVCache struct {
	Rows, Cap int
	layers    []*tensor.Tensor // per layer [Cap 2K*E], keys and values in columns
	b         tensor.Backend
	dtype     tensor.DType
}

// NewKVCache returns a cache for capacity rows. Memory is allocated on a layer's first run.
func NewKVCache(b tensor.Backend, capacity int, dtype tensor.DType) *KVCache {
	return &KVCache{Cap: capacity, b: b, dtype: dtype}
}

// Release frees the memory.
func (c *KVCache) Release() {
	for _, l := range c.layers {
		if l != nil {
			l.Release()
		}
	}
	c.layers = nil
}

// layer returns the cache of one layer, width columns wide.
func (c *KVCache) layer(i, width int) *tensor.Tensor {
	for len(c.layers) <= i {
		c.layers = append(c.layers, nil)
	}
	if c.layers[i] == nil {
		c.layers[i] = c.b.New(tensor.Activations, c.dtype, c.Cap, width)
	}
	return c.layers[i]
}

// Attend is attention in one layer: of qkv [N (H+2K)*E], or of q [N H*E] and kv [N 2K*E], over the
// pass's rows and cached ones. A nil cache stores nothing.
func (c *KVCache) Attend(t *autograd.Tape, layer int, docs *tensor.Tensor, p tensor.AttentionParams, in ...*autograd.Var) *autograd.Var {
	if c != nil {
		last := in[len(in)-1].Value
		kv := last.Cols(last.Width()-2*p.KVHeads*p.E, last.Width())
		cached := c.layer(layer, kv.Width())
		end := c.Rows + kv.Rows()
		c.b.Copy(cached.RowRange(c.Rows, end), kv)
		if c.Rows > 0 {
			return t.AttentionDecode(in[0], cached.RowRange(0, end), p)
		}
	}
	if len(in) == 1 {
		return t.Attention(in[0], docs, p)
	}
	return t.CrossAttention(in[0], in[1], docs, p)
}
