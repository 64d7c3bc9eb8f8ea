package cpu

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"trireme/internal/kernel"
	"trireme/tensor"
)

// Attention runs a task per sequence and key and value head. Long sequences are split into blocks
// of queries.
func (b *Backend) Attention(o, lse, q, k, v, docs *tensor.Tensor, p tensor.AttentionParams) {
	const op = "attention"
	n := checkAttention(op, p, lse, docs, []*tensor.Tensor{q, o}, []*tensor.Tensor{k, v})
	if n == 0 {
		return
	}
	c := b.newAttentionCall(op, n, p, docs, []*tensor.Tensor{q, k, v}, (*kernel.Attention).ForwardScratch)
	defer c.release()
	c.clearPadding(op, o)
	l, or, qr, kr, vr := tensor.Host[float32](lse), attentionRows(o), attentionRows(q), attentionRows(k), attentionRows(v)
	for h := range p.Heads {
		clear(l[h*n+c.rows : (h+1)*n])
	}
	tasks := 0
	for i := range c.seqs {
		s := &c.seqs[i]
		s.parts = 1
		if b.pool.threads > 1 {
			share := s.square() * float64(4*b.pool.threads) / (c.squares * float64(p.KVHeads))
			s.parts = min(s.blocks(), max(1, int(math.Ceil(share-1e-9))))
		}
		tasks += s.parts * p.KVHeads
		s.tasks = tasks
	}
	c.schedule(b, tasks)(tasks, func(tile, thread int) {
		s := &c.seqs[sort.Search(len(c.seqs), func(i int) bool { return c.seqs[i].tasks > tile })]
		// Later blocks attend to more keys, so they run first.
		tile -= s.tasks - s.parts*p.KVHeads
		head, part, blocks := tile%p.KVHeads, s.parts-1-tile/p.KVHeads, s.blocks()
		u := c.unit(s, head)
		u.Forward(c.mem(thread), c.query(or, s, head), c.lse(l, s, head), c.query(qr, s, head), c.key(kr, s, head), c.key(vr, s, head),
			part*blocks/s.parts*kernel.AttentionBlock, min(s.n, (part+1)*blocks/s.parts*kernel.AttentionBlock))
	})
}

// AttentionBackward runs a task per sequence and key and value head, or more, smaller ones (attention_parts.go).
func (b *Backend) AttentionBackward(dq, dk, dv, do, o, lse, q, k, v, docs *tensor.Tensor, p tensor.AttentionParams) {
	const op = "attention backward"
	n := checkAttention(op, p, lse, docs, []*tensor.Tensor{q, o, do, dq}, []*tensor.Tensor{k, v, dk, dv})
	if n == 0 {
		return
	}
	c := b.newAttentionCall(op, n, p, docs, []*tensor.Tensor{q, k, v, do}, (*kernel.Attention).BackwardScratch)
	defer c.release()
	c.clearPadding(op, dq, dk, dv)
	l, dor, or, dqr, qr := tensor.Host[float32](lse), attentionRows(do), attentionRows(o), attentionRows(dq), attentionRows(q)
	kr, vr, dkr, dvr := attentionRows(k), attentionRows(v), attentionRows(dk), attentionRows(dv)
	tasks, task := c.backwardTasks(b.pool.threads)
	c.schedule(b, tasks)(tasks, func(tile, thread int) {
		t := task(tile)
		s, head := t.seq, t.head
		u := c.unit(s, head)
		u.Backward(c.mem(thread), t.part, c.query(dqr, s, head), c.key(dkr, s, head), c.key(dvr, s, head), c.query(dor, s, head), c.query(or, s, head),
			c.lse(l, s, head), c.query(qr, s, head), c.key(kr, s, head), c.key(vr, s, head))
	})
}

// schedule returns how threads share tasks, which take as long as each other if there is one for each head of equal sequences.
func (c *attentionCall) schedule(b *Backend, tasks int) func(tiles int, f func(tile, thread int)) {
	if tasks == len(c.seqs)*c.p.KVHeads && (tasks == 0 || c.seqs[0].n == c.seqs[len(c.seqs)-1].n) {
		return b.pool.run
	}
	return b.pool.inOrder
}

// attentionSeq is one sequence of a call.
type attentionSeq struct {
	first, n     int // first row and length
	mask         kernel.AttentionMask
	drop         uint64 // row id of its first row
	parts, tasks int    // tasks per head; cumulative tasks of all heads and sequences
}

func (s *attentionSeq) blocks() int {
	return (s.n + kernel.AttentionBlock - 1) / kernel.AttentionBlock
}

func (s *attentionSeq) square() float64 { return float64(s.n) * float64(s.n) }

// attentionCall is shared by the tasks of one call.
type attentionCall struct {
	p       tensor.AttentionParams
	shape   kernel.Attention
	seqs    []attentionSeq // without empty ones, longest first
	rows    int            // sum of lengths
	squares float64        // sum of squared lengths
	ranges  scratch        // memory of the masks
	scratch scratch
	threads []float32 // [threads length], a view of scratch
	length  int
}

func (b *Backend) newAttentionCall(op string, n int, p tensor.AttentionParams, docs *tensor.Tensor, operands []*tensor.Tensor, length func(*kernel.Attention) int) *attentionCall {
	c := &attentionCall{p: p, shape: kernel.Attention{E: p.E, Group: p.Heads / p.KVHeads, LSE: n, Scale: float32(p.Scale)}}
	c.shape.BF16 = !slices.ContainsFunc(operands, func(t *tensor.Tensor) bool { return t.DType() != tensor.BF16 })
	c.readStarts(op, n)
	if p.Dropout != 0 {
		at, d := rowIDs(op, p.Rows, n), &c.shape.Drop
		d.Dropout, d.Row, d.Head = newDropout(op, p.Key, p.Dropout), uint64(p.Heads*p.MaxSeqLen), uint64(p.MaxSeqLen)
		for i := range c.seqs {
			c.seqs[i].drop = uint64(at[c.seqs[i].first])
		}
	}
	if len(c.seqs) > 0 {
		c.shape.T = c.seqs[0].n
	}
	c.setMasks(b, docs)
	// The arena returns the same, warm memory on each call.
	c.length = (length(&c.shape) + 15) &^ 15
	c.scratch = b.scratch(b.pool.threads * c.length * 4)
	c.threads = elems[float32](c.scratch, tensor.F32)
	return c
}

// readStarts reads and checks the sequence bounds.
func (c *attentionCall) readStarts(op string, n int) {
	starts := tensor.Host[int32](c.p.Starts)
	check(starts[0] == 0, op, "the first sequence starts at row %d", starts[0])
	c.seqs = make([]attentionSeq, 0, len(starts)-1)
	for i, first := range starts[:len(starts)-1] {
		rows := int(starts[i+1]) - int(first)
		if rows < 0 || rows > c.p.MaxSeqLen || int(starts[i+1]) > n {
			check(false, op, "sequence %d is rows %d to %d of %d, with a bound of %d", i, first, starts[i+1], n, c.p.MaxSeqLen)
		}
		if c.p.SeqLen > 0 && (rows != c.p.SeqLen || n != (len(starts)-1)*rows) {
			check(false, op, "sequence %d of %d has %d of %d rows, but every one should have %d", i, len(starts)-1, rows, n, c.p.SeqLen)
		}
		if rows > 0 {
			c.seqs = append(c.seqs, attentionSeq{first: int(first), n: rows})
			c.squares += c.seqs[len(c.seqs)-1].square()
			c.rows += rows
		}
	}
	slices.SortStableFunc(c.seqs, func(a, b attentionSeq) int { return cmp.Compare(b.n, a.n) })
}

// setMasks sets the masks. A sequence that differs from the previous, longer one in length only
// shares its mask.
func (c *attentionCall) setMasks(b *Backend, docs *tensor.Tensor) {
	c.ranges = b.scratch(2 * c.rows * 4)
	ranges := elems[int32](c.ranges, tensor.I32)
	for i := range c.seqs {
		s := &c.seqs[i]
		if i > 0 && docs == nil && (c.p.Causal || s.n == c.seqs[i-1].n) {
			m := &c.seqs[i-1].mask
			s.mask.Lo, s.mask.Hi = m.Lo[:s.n], m.Hi[:s.n]
			continue
		}
		s.mask.Lo, s.mask.Hi, ranges = ranges[:s.n], ranges[s.n:2*s.n], ranges[2*s.n:]
		var d []int32
		if docs != nil {
			d = tensor.Host[int32](docs)[s.first:][:s.n]
		}
		s.mask.Set(c.p.Causal, c.p.Window, d)
	}
}

// clearPadding zeroes rows of no sequence.
func (c *attentionCall) clearPadding(op string, ts ...*tensor.Tensor) {
	for _, t := range ts {
		o := floats(op, t)
		for i := c.rows; i < t.Rows(); i++ {
			o.row(i, t.Width()).clear()
		}
	}
}

func (c *attentionCall) release() {
	c.scratch.release()
	c.ranges.release()
}

func (c *attentionCall) mem(thread int) []float32 {
	return c.threads[thread*c.length:][:c.length]
}

// unit is the kernel's problem for key and value head h of a sequence.
func (c *attentionCall) unit(s *attentionSeq, h int) kernel.Attention {
	a := c.shape
	a.T, a.Mask = s.n, s.mask
	a.Drop.First = s.drop*a.Drop.Row + uint64(h*a.Group)*a.Drop.Head
	return a
}

// query and key are a sequence's rows, from the columns of head h (query: of its group) on.
func (c *attentionCall) query(r kernel.AttentionRows, s *attentionSeq, h int) kernel.AttentionRows {
	return r.From(s.first, h*c.shape.Group*c.p.E)
}

func (c *attentionCall) key(r kernel.AttentionRows, s *attentionSeq, h int) kernel.AttentionRows {
	return r.From(s.first, h*c.p.E)
}

// lse is the rows of head h's group, from the sequence's first row on.
func (c *attentionCall) lse(l []float32, s *attentionSeq, h int) []float32 {
	return l[h*c.shape.Group*c.shape.LSE+s.first:]
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

// checkAttention returns the number of rows.
func checkAttention(op string, p tensor.AttentionParams, lse, docs *tensor.Tensor, queries, keys []*tensor.Tensor) (n int) {
	check(p.MaxSeqLen >= 0 && p.E > 0 && p.KVHeads > 0 && p.Heads > 0 && p.Heads%p.KVHeads == 0 && p.Window >= 0, op, "%+v", p)
	check(p.Starts != nil && p.Starts.DType() == tensor.I32 && p.Starts.Contiguous() && p.Starts.Elems() > 0, op, "bounds %v of sequences", p.Starts)
	n = queries[0].Rows()
	for _, t := range queries {
		floats(op, t)
		check(t.Shape().Equal(tensor.Shape{n, p.Heads * p.E}), op, "%v with %+v", t, p)
	}
	for _, t := range keys {
		floats(op, t)
		check(t.Shape().Equal(tensor.Shape{n, p.KVHeads * p.E}), op, "%v with %+v", t, p)
	}
	check(lse.DType() == tensor.F32 && lse.Contiguous() && lse.Elems() == n*p.Heads, op, "lse %v of %d rows with %+v", lse, n, p)
	check(docs == nil || docs.DType() == tensor.I32 && docs.Contiguous() && docs.Elems() == n, op, "docs %v of %d rows with %+v", docs, n, p)
	return n
}
