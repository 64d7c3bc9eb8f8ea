package cpu

import (
	"trireme/internal/kernel"
	"trireme/tensor"
)

// Attention runs one task for each key and value head of each sequence or, where that is
// too few for the threads, several that take blocks of queries.
func (b *Backend) Attention(o, lse, q, k, v, docs *tensor.Tensor, p tensor.AttentionParams) {
	checkAttention("attention", p, lse, docs, []*tensor.Tensor{q, o}, []*tensor.Tensor{k, v})
	if p.Batch*p.T == 0 {
		return
	}
	c := b.newAttentionCall(p, docs, func(a *kernel.Attention) int { return a.ForwardScratch() })
	defer c.release()
	l := tensor.Host[float32](lse)
	blocks := (p.T + kernel.AttentionBlock - 1) / kernel.AttentionBlock
	heads := p.Batch * p.KVHeads
	parts := 1 // tasks of one head
	if b.pool.threads > 1 && heads < 4*b.pool.threads {
		parts = min(blocks, (4*b.pool.threads+heads-1)/max(1, heads))
	}
	b.pool.run(heads*parts, func(tile, thread int) {
		// The last blocks see most, so they go first.
		head, part := tile%heads, parts-1-tile/heads
		u := c.unit(head)
		u.Forward(c.mem(thread), c.query(o, head), c.lse(l, head), c.query(q, head), c.key(k, head), c.key(v, head),
			part*blocks/parts*kernel.AttentionBlock, min(p.T, (part+1)*blocks/parts*kernel.AttentionBlock))
	})
}

// AttentionBackward runs one task for each key and value head of each sequence.
func (b *Backend) AttentionBackward(dq, dk, dv, do, o, lse, q, k, v, docs *tensor.Tensor, p tensor.AttentionParams) {
	checkAttention("attention backward", p, lse, docs, []*tensor.Tensor{q, o, do, dq}, []*tensor.Tensor{k, v, dk, dv})
	if p.Batch*p.T == 0 {
		return
	}
	c := b.newAttentionCall(p, docs, func(a *kernel.Attention) int { return a.BackwardScratch() })
	defer c.release()
	l := tensor.Host[float32](lse)
	b.pool.run(p.Batch*p.KVHeads, func(head, thread int) {
		u := c.unit(head)
		u.Backward(c.mem(thread), c.query(dq, head), c.key(dk, head), c.key(dv, head), c.query(do, head), c.query(o, head),
			c.lse(l, head), c.query(q, head), c.key(k, head), c.key(v, head))
	})
}

// attentionCall is what the tasks of one call share.
type attentionCall struct {
	p       tensor.AttentionParams
	shape   kernel.Attention
	masks   []kernel.AttentionMask // one for each sequence, or one for all
	ranges  *tensor.Tensor         // what the masks are made of
	scratch *tensor.Tensor         // [threads length]
}

func (b *Backend) newAttentionCall(p tensor.AttentionParams, docs *tensor.Tensor, length func(*kernel.Attention) int) *attentionCall {
	c := &attentionCall{p: p, shape: kernel.Attention{T: p.T, E: p.E, Group: p.Heads / p.KVHeads, Scale: float32(p.Scale)}}
	n := 1
	var ids []int32
	if docs != nil {
		n, ids = p.Batch, tensor.Host[int32](docs)
	}
	c.masks = make([]kernel.AttentionMask, n)
	c.ranges = b.New(tensor.Workspace, tensor.I32, 2*n*p.T)
	ranges := tensor.Host[int32](c.ranges)
	for i := range c.masks {
		m := &c.masks[i]
		m.Lo, m.Hi, ranges = ranges[:p.T], ranges[p.T:2*p.T], ranges[2*p.T:]
		var d []int32
		if docs != nil {
			d = ids[i*p.T:][:p.T]
		}
		m.Set(p.Causal, p.Window, d)
	}
	// The arena keeps the memory, so that every call after the first finds it warm.
	c.scratch = b.New(tensor.Workspace, tensor.F32, b.pool.threads, (length(&c.shape)+15)&^15)
	return c
}

func (c *attentionCall) release() {
	c.scratch.Release()
	c.ranges.Release()
}

func (c *attentionCall) mem(thread int) []float32 {
	return tensor.Host[float32](c.scratch.RowRange(thread, thread+1))
}

// unit is the computation of key and value head n, counted over all sequences.
func (c *attentionCall) unit(n int) kernel.Attention {
	a := c.shape
	a.Mask = c.masks[0]
	if len(c.masks) > 1 {
		a.Mask = c.masks[n/c.p.KVHeads]
	}
	return a
}

func (c *attentionCall) query(t *tensor.Tensor, n int) kernel.AttentionRows {
	g := c.shape.Group
	return c.rows(t, n/c.p.KVHeads, n%c.p.KVHeads*g*c.p.E, g*c.p.E)
}

func (c *attentionCall) key(t *tensor.Tensor, n int) kernel.AttentionRows {
	return c.rows(t, n/c.p.KVHeads, n%c.p.KVHeads*c.p.E, c.p.E)
}

func (c *attentionCall) lse(l []float32, n int) []float32 {
	g := c.shape.Group * c.p.T
	return l[n*g:][:g]
}

// rows is columns [col,col+width) of the rows of one sequence.
func (c *attentionCall) rows(t *tensor.Tensor, seq, col, width int) kernel.AttentionRows {
	t = t.RowRange(seq*c.p.T, (seq+1)*c.p.T).Cols(col, col+width)
	r := kernel.AttentionRows{Stride: t.RowStride()}
	if t.DType() == tensor.F32 {
		r.F32 = tensor.Host[float32](t)
	} else {
		r.BF16 = tensor.Host[uint16](t)
	}
	return r
}

func checkAttention(op string, p tensor.AttentionParams, lse, docs *tensor.Tensor, queries, keys []*tensor.Tensor) {
	check(p.Batch >= 0 && p.T >= 0 && p.E > 0 && p.KVHeads > 0 && p.Heads > 0 && p.Heads%p.KVHeads == 0 && p.Window >= 0, op, "%+v", p)
	n := p.Batch * p.T
	for _, t := range queries {
		check(t.DType() == tensor.F32 || t.DType() == tensor.BF16, op, "%v", t)
		check(t.Shape().Equal(tensor.Shape{n, p.Heads * p.E}), op, "%v with %+v", t, p)
	}
	for _, t := range keys {
		check(t.DType() == tensor.F32 || t.DType() == tensor.BF16, op, "%v", t)
		check(t.Shape().Equal(tensor.Shape{n, p.KVHeads * p.E}), op, "%v with %+v", t, p)
	}
	check(lse.DType() == tensor.F32 && lse.Contiguous() && lse.Elems() == n*p.Heads, op, "lse %v with %+v", lse, p)
	check(docs == nil || docs.DType() == tensor.I32 && docs.Contiguous() && docs.Elems() == n, op, "docs %v with %+v", docs, p)
}
