package nn

import (
	"trireme/autograd"
	"trireme/tensor"
)

// Cache holds the keys and values of the rows of one sequence that a model has seen, so that
// the rows after them need not see them computed again. It is used in passes without
// gradients, first one of any number of rows and then one row a pass; after each the caller
// adds its rows to Rows.
type Cache struct {
	Rows, Cap int
	layers    []*tensor.Tensor // of each layer [Cap 2K*E]: keys and values side by side
	b         tensor.Backend
	dtype     tensor.DType
}

// NewCache has room for so many rows of values of type dtype. Layers take their memory when they
// first run.
func NewCache(b tensor.Backend, capacity int, dtype tensor.DType) *Cache {
	return &Cache{Cap: capacity, b: b, dtype: dtype}
}

// Release gives the memory back.
func (c *Cache) Release() {
	for _, l := range c.layers {
		if l != nil {
			l.Release()
		}
	}
	c.layers = nil
}

// layer is the cache of one layer, with width columns.
func (c *Cache) layer(i, width int) *tensor.Tensor {
	for len(c.layers) <= i {
		c.layers = append(c.layers, nil)
	}
	if c.layers[i] == nil {
		c.layers[i] = c.b.New(tensor.Activations, c.dtype, c.Cap, width)
	}
	return c.layers[i]
}

// Attend is attention in one layer of a model: of qkv [N (H+2K)*E], or of q [N H*E] and kv [N
// 2K*E], over the rows of the pass and those that the cache holds of this layer. A nil cache
// holds none, and takes none.
func (c *Cache) Attend(t *autograd.Tape, layer int, docs *tensor.Tensor, p tensor.AttentionParams, in ...*autograd.Var) *autograd.Var {
	if c != nil {
		last := in[len(in)-1].Value
		kv := last.Cols(last.Width()-2*p.KVHeads*p.E, last.Width())
		held := c.layer(layer, kv.Width())
		end := c.Rows + kv.Rows()
		c.b.Copy(held.RowRange(c.Rows, end), kv)
		if c.Rows > 0 {
			return t.AttentionDecode(in[0], held.RowRange(0, end), p)
		}
	}
	if len(in) == 1 {
		return t.Attention(in[0], docs, p)
	}
	return t.CrossAttention(in[0], in[1], docs, p)
}
