package cpu

import (
	"trireme/internal/kernel"
	"trireme/tensor"
)

// AttentionDecode runs a task per chunk of keys, then combines the chunks.
func (b *Backend) AttentionDecode(o, q, k, v, at *tensor.Tensor, p tensor.AttentionParams) {
	const op = "attention of one row"
	for _, t := range []*tensor.Tensor{k, v} {
		floats(op, t)
	}
	check(v.Rows() == k.Rows() && k.Width() == p.KVHeads*p.E && v.Width() == k.Width(), op, "keys %v and values %v with %+v", k, v, p)
	b.attentionDecode(op, o, q, at, p, k.Rows(), attentionRows(k), attentionRows(v))
}

// AttentionDecodeQuantized dequantizes the keys and values of a chunk at a time.
func (b *Backend) AttentionDecodeQuantized(o, q, kv, scales, at *tensor.Tensor, p tensor.AttentionParams) {
	const op = "attention of one row over 8-bit values"
	blocks := cacheBlocks(op, kv, scales)
	check(p.E > 0 && blocks.E == p.E && scales.Width() == 2*p.KVHeads, op, "keys and values %v with scales %v with %+v", kv, scales, p)
	b.attentionDecode(op, o, q, at, p, kv.Rows(), blocks, blocks.From(0, p.KVHeads*p.E))
}

// cacheBlocks is 8-bit rows with a scale per block of columns.
func cacheBlocks(op string, t, scales *tensor.Tensor) kernel.AttentionRows {
	check(len(t.Shape()) == 2 && t.DType() == tensor.U8 && t.Contiguous() && scales.DType() == tensor.F32 && scales.Contiguous() &&
		scales.Rows() == t.Rows() && scales.Width() > 0 && t.Width()%scales.Width() == 0, op, "rows %v with scales %v", t, scales)
	return kernel.AttentionRows{I8: tensor.Host[uint8](t), Scales: tensor.Host[float32](scales), Stride: t.Width(), E: t.Width() / scales.Width(), ScaleStride: scales.Width()}
}

// WriteRowsQuantized quantizes x row by row.
func (b *Backend) WriteRowsQuantized(dst, scales, x, at *tensor.Tensor) {
	const op = "write rows in 8 bits"
	to, first, width := cacheBlocks(op, dst, scales), int(indices(op, at, 1)[0]), x.Width()
	check(dst.Width() == width && first >= 0 && first <= dst.Rows()-x.Rows(), op, "%v from row %d of %v", x, first, dst)
	in := floats(op, x)
	tmp := b.rowScratch(width, &in)
	defer tmp.release()
	b.rows(x.Rows(), width, func(lo, hi, thread int) {
		for n := lo; n < hi; n++ {
			row := in.load(n*in.ld, width, tmp.row(thread, 0))
			tensor.QuantizeBlocks(to.I8[(first+n)*width:][:width], to.Scales[(first+n)*to.ScaleStride:][:to.ScaleStride], row, width, to.E)
		}
	})
}

// attentionDecode attends to the first rows of k and v.
func (b *Backend) attentionDecode(op string, o, q, at *tensor.Tensor, p tensor.AttentionParams, rows int, kr, vr kernel.AttentionRows) {
	check(p.E > 0 && p.KVHeads > 0 && p.Heads > 0 && p.Heads%p.KVHeads == 0 && p.Window >= 0, op, "%+v", p)
	floats(op, q)
	n := int(indices(op, at, 1)[0]) + 1
	check(o.Elems() == p.Heads*p.E && q.Elems() == o.Elems() && q.Rows() == 1 && o.Rows() == 1, op, "%v for queries %v with %+v", o, q, p)
	check(n > 0 && n <= rows, op, "position %d of %d keys and values with %+v", n-1, rows, p)
	from := 0
	if p.Window > 0 {
		from = max(0, n-p.Window)
	}
	d := kernel.AttentionDecode{Heads: p.Heads, KVHeads: p.KVHeads, E: p.E, Scale: float32(p.Scale)}
	count, length, part := (n-from+kernel.DecodeKeys-1)/kernel.DecodeKeys, d.Scratch(), d.PartLength()
	s := b.scratch((b.pool.threads*length + count*part + p.Heads*p.E) * 4)
	defer s.release()
	mem := elems[float32](s, tensor.F32)
	threads, parts, tmp := mem[:b.pool.threads*length], mem[b.pool.threads*length:][:count*part], mem[b.pool.threads*length+count*part:]
	qr := attentionRows(q)
	b.pool.run(count, func(i, thread int) {
		first := from + i*kernel.DecodeKeys
		d.Part(threads[thread*length:][:length], parts[i*part:][:part], qr, kr.From(first, 0), vr.From(first, 0), min(kernel.DecodeKeys, n-first))
	})
	y := floats(op, o)
	out := y.dest(0, p.Heads*p.E, tmp)
	b.rows(p.Heads, count*p.E, func(lo, hi, _ int) {
		for h := lo; h < hi; h++ {
			d.Join(out[h*p.E:][:p.E], parts, h)
		}
	})
	y.store(0, out)
}
