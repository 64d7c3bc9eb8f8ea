package cpu

import (
	"slices"

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
	c := b.newAttentionCall(p, docs, []*tensor.Tensor{q, k, v}, (*kernel.Attention).ForwardScratch)
	defer c.release()
	l, or, qr, kr, vr := tensor.Host[float32](lse), attentionRows(o), attentionRows(q), attentionRows(k), attentionRows(v)
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
		u.Forward(c.mem(thread), c.query(or, head), c.lse(l, head), c.query(qr, head), c.key(kr, head), c.key(vr, head),
			part*blocks/parts*kernel.AttentionBlock, min(p.T, (part+1)*blocks/parts*kernel.AttentionBlock))
	})
}

// AttentionBackward runs one task for each key and value head of each sequence.
func (b *Backend) AttentionBackward(dq, dk, dv, do, o, lse, q, k, v, docs *tensor.Tensor, p tensor.AttentionParams) {
	checkAttention("attention backward", p, lse, docs, []*tensor.Tensor{q, o, do, dq}, []*tensor.Tensor{k, v, dk, dv})
	if p.Batch*p.T == 0 {
		return
	}
	c := b.newAttentionCall(p, docs, []*tensor.Tensor{q, k, v, do}, (*kernel.Attention).BackwardScratch)
	defer c.release()
	l, dor, or, dqr, qr := tensor.Host[float32](lse), attentionRows(do), attentionRows(o), attentionRows(dq), attentionRows(q)
	kr, vr, dkr, dvr := attentionRows(k), attentionRows(v), attentionRows(dk), attentionRows(dv)
	b.pool.run(p.Batch*p.KVHeads, func(head, thread int) {
		u := c.unit(head)
		u.Backward(c.mem(thread), c.query(dqr, head), c.key(dkr, head), c.key(dvr, head), c.query(dor, head), c.query(or, head),
			c.lse(l, head), c.query(qr, head), c.key(kr, head), c.key(vr, head))
	})
}

// attentionCall is what the tasks of one call share.
type attentionCall struct {
	p       tensor.AttentionParams
	shape   kernel.Attention
	masks   []kernel.AttentionMask // one for each sequence, or one for all
	ranges  scratch                // what the masks are made of
	scratch scratch
	threads []float32 // [threads length], the scratch's elements
	length  int
}

func (b *Backend) newAttentionCall(p tensor.AttentionParams, docs *tensor.Tensor, operands []*tensor.Tensor, length func(*kernel.Attention) int) *attentionCall {
	c := &attentionCall{p: p, shape: kernel.Attention{T: p.T, E: p.E, Group: p.Heads / p.KVHeads, Scale: float32(p.Scale)}}
	c.shape.BF16 = !slices.ContainsFunc(operands, func(t *tensor.Tensor) bool { return t.DType() != tensor.BF16 })
	if p.Dropout != 0 {
		d := &c.shape.Drop
		d.Dropout, d.First = newDropout("attention", p.Key, p.First, p.Dropout)
		d.Row = uint64(p.Heads * p.T)
	}
	n := 1
	var ids []int32
	if docs != nil {
		n, ids = p.Batch, tensor.Host[int32](docs)
	}
	c.masks = make([]kernel.AttentionMask, n)
	c.ranges = b.scratch(2 * n * p.T * 4)
	ranges := elems[int32](c.ranges, tensor.I32)
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
	c.length = (length(&c.shape) + 15) &^ 15
	c.scratch = b.scratch(b.pool.threads * c.length * 4)
	c.threads = elems[float32](c.scratch, tensor.F32)
	return c
}

func (c *attentionCall) release() {
	c.scratch.release()
	c.ranges.release()
}

func (c *attentionCall) mem(thread int) []float32 {
	return c.threads[thread*c.length:][:c.length]
}

// unit is the computation of key and value head n, counted over all sequences.
func (c *attentionCall) unit(n int) kernel.Attention {
	a := c.shape
	a.Drop.First = (a.Drop.First+uint64(n/c.p.KVHeads*a.T))*a.Drop.Row + uint64(n%c.p.KVHeads*a.Group*a.T)
	a.Mask = c.masks[0]
	if len(c.masks) > 1 {
		a.Mask = c.masks[n/c.p.KVHeads]
	}
	return a
}

// query and key are the rows of head n's sequence, from the columns of the head (or of its
// group) on.
func (c *attentionCall) query(r kernel.AttentionRows, n int) kernel.AttentionRows {
	return r.From(n/c.p.KVHeads*c.p.T, n%c.p.KVHeads*c.shape.Group*c.p.E)
}

func (c *attentionCall) key(r kernel.AttentionRows, n int) kernel.AttentionRows {
	return r.From(n/c.p.KVHeads*c.p.T, n%c.p.KVHeads*c.p.E)
}

func (c *attentionCall) lse(l []float32, n int) []float32 {
	g := c.shape.Group * c.p.T
	return l[n*g:][:g]
}

func attentionRows(t *tensor.Tensor) kernel.AttentionRows {
	switch t.DType() {
	case tensor.F32:
		return kernel.AttentionRows{F32: tensor.Host[float32](t), Stride: t.RowStride()}
	case tensor.F16:
		return kernel.AttentionRows{F16: tensor.Host[uint16](t), Stride: t.RowStride()}
	}
	return kernel.AttentionRows{BF16: tensor.Host[uint16](t), Stride: t.RowStride()}
}

func checkAttention(op string, p tensor.AttentionParams, lse, docs *tensor.Tensor, queries, keys []*tensor.Tensor) {
	check(p.Batch >= 0 && p.T >= 0 && p.E > 0 && p.KVHeads > 0 && p.Heads > 0 && p.Heads%p.KVHeads == 0 && p.Window >= 0, op, "%+v", p)
	n := p.Batch * p.T
	for _, t := range queries {
		floats(op, t)
		check(t.Shape().Equal(tensor.Shape{n, p.Heads * p.E}), op, "%v with %+v", t, p)
	}
	for _, t := range keys {
		floats(op, t)
		check(t.Shape().Equal(tensor.Shape{n, p.KVHeads * p.E}), op, "%v with %+v", t, p)
	}
	check(lse.DType() == tensor.F32 && lse.Contiguous() && lse.Elems() == n*p.Heads, op, "lse %v with %+v", lse, p)
	check(docs == nil || docs.DType() == tensor.I32 && docs.Contiguous() && docs.Elems() == n, op, "docs %v with %+v", docs, p)
}
