package cpu

import (
	"trireme/internal/kernel"
	"trireme/tensor"
)

// AttentionDecode runs a task per chunk of keys, then combines the chunks.
func (b *Backend) AttentionDecode(o, q, k, v, at *tensor.Tensor, p tensor.AttentionParams) {
	const op = "attention of one row"
	check(p.E > 0 && p.KVHeads > 0 && p.Heads > 0 && p.Heads%p.KVHeads == 0 && p.Window >= 0, op, "%+v", p)
	for _, t := range []*tensor.Tensor{o, q, k, v} {
		floats(op, t)
	}
	n := int(indices(op, at, 1)[0]) + 1
	check(o.Elems() == p.Heads*p.E && q.Elems() == o.Elems() && q.Rows() == 1 && o.Rows() == 1, op, "%v for queries %v with %+v", o, q, p)
	check(n > 0 && n <= k.Rows() && v.Rows() == k.Rows() && k.Width() == p.KVHeads*p.E && v.Width() == k.Width(), op, "position %d of keys %v and values %v with %+v", n-1, k, v, p)
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
	qr, kr, vr := attentionRows(q), attentionRows(k), attentionRows(v)
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
