package xla

import (
	"math"

	"trireme/tensor"
)

// chunking limits the attention scores that exist at one time to scores, unless a chunk of the least
// number of queries has more.
type chunking struct{ scores, least int }

var defaultChunking = chunking{1 << 25, 64}

// attention is shared by forward and backward. It goes through the rows in chunks of queries, each with
// a band of the keys that they may see, so memory is linear in N.
//
// Letters: B entries of T rows (N = B T), K key and value heads with G query heads each, H = K G, E head
// size, C queries of a chunk, W keys of a band. Without SeqLen, B is 1.
type attention struct {
	*emitter
	p             tensor.AttentionParams
	b, t, g       int
	before, after int // keys that a query may see
	c, padded     int // queries of a chunk, and T rounded up to chunks
	operands
}

// operands are the values that all chunks use. Those that an attention does not need are empty.
type operands struct {
	q, do      value // [B*K T*G E], padded
	lse, delta value // [B*K T*G], padded
	k, v       value // [B*K T E]
	qSeq, kSeq value // I32 [B T]: numbers of sequences, 0 for padding
	qDoc, kDoc value // I32 [B T]
	ids        value // I64 [B T], padded
	stream     value // I64 scalar
}

func (o *operands) fields() []*value {
	return []*value{&o.q, &o.do, &o.lse, &o.delta, &o.k, &o.v, &o.qSeq, &o.kSeq, &o.qDoc, &o.kDoc, &o.ids, &o.stream}
}

func (e *emitter) attend(q, k, v, docs *tensor.Tensor, p tensor.AttentionParams) *attention {
	a := &attention{emitter: e, p: p, b: 1, t: q.Rows(), g: p.Heads / p.KVHeads}
	longest := min(p.MaxSeqLen, a.t)
	if p.SeqLen > 0 {
		a.b, a.t, longest = a.t/p.SeqLen, p.SeqLen, p.SeqLen
	}
	a.before, a.after = max(0, longest-1), max(0, longest-1)
	if p.Causal {
		a.after = 0
	}
	if p.Window > 0 {
		a.before = min(a.before, p.Window-1)
	}
	a.c = a.chunk()
	a.padded = (a.t + a.c - 1) / a.c * a.c
	a.q, a.k, a.v = a.pad(a.split(e.load(q))), a.split(e.load(k)), a.split(e.load(v))
	if p.SeqLen == 0 {
		a.kSeq = a.sequences()
		a.qSeq = a.pad(a.kSeq)
	}
	if docs != nil {
		a.kDoc = e.reshape(e.load(docs), a.b, a.t)
		a.qDoc = a.pad(a.kDoc)
	}
	if p.Dropout != 0 {
		a.ids = a.pad(e.reshape(e.load(p.Rows), a.b, a.t))
		if s, ok := e.streams[p.Key.Stream]; ok {
			a.stream = s
		}
	}
	return a
}

// chunk is the number of queries of a chunk.
func (a *attention) chunk() int {
	scores := func(c int) int { return a.b * a.p.Heads * c * min(a.t, c+a.before+a.after) }
	limit := a.target.chunking
	if scores(a.t) <= limit.scores {
		return a.t
	}
	c := min(limit.least, a.t)
	for 2*c < a.t && scores(2*c) <= limit.scores {
		c *= 2
	}
	return c
}

// sequences numbers the rows' sequences: the first row plus 1.
func (a *attention) sequences() value {
	starts := a.load(a.p.Starts)
	n, count := a.t, starts.size()
	row := a.iota("i32", n)
	all, rows := a.broadcast(starts, []int{0}, count, n), a.broadcast(row, []int{1}, count, n)
	first := a.reduce(a.selects(a.compare(all, rows, "LE"), all, a.splat("i32", 0, count, n)), 0, "maximum", 0)
	end := a.broadcast(a.reshape(a.slice(starts, []int{count - 1}, []int{count})), nil, n)
	some := a.compare(row, end, "LT")
	return a.reshape(a.selects(some, a.binary("add", first, a.splat("i32", 1, n)), a.splat("i32", 0, n)), a.b, a.t)
}

// split arranges [N heads*E] by entry and key head: [B*K T*heads/K E].
func (a *attention) split(x value) value {
	heads := x.size() / (a.b * a.t * a.p.E)
	x = a.transpose(a.reshape(x, a.b, a.t, a.p.KVHeads, heads/a.p.KVHeads, a.p.E), 0, 2, 1, 3, 4)
	return a.reshape(x, a.b*a.p.KVHeads, a.t*heads/a.p.KVHeads, a.p.E)
}

// join is the inverse of split.
func (a *attention) join(x value) value {
	heads := x.size() / (a.b * a.t * a.p.E)
	x = a.transpose(a.reshape(x, a.b, a.p.KVHeads, a.t, heads/a.p.KVHeads, a.p.E), 0, 2, 1, 3, 4)
	return a.reshape(x, a.b*a.t, heads*a.p.E)
}

// pad appends rows up to whole chunks to dimension 1.
func (a *attention) pad(x value) value {
	before, after := make([]int, len(x.dims)), make([]int, len(x.dims))
	after[1] = x.dims[1] / a.t * (a.padded - a.t)
	return a.builder.pad(x, before, after)
}

// unpad is the inverse of pad.
func (a *attention) unpad(x value) value {
	to := append([]int{}, x.dims...)
	to[1] = x.dims[1] / a.padded * a.t
	return a.slice(x, make([]int, len(to)), to)
}

// part is a run of chunks with bands of one length.
type part struct {
	from, count int // first query, chunks
	first, w    int // first key, or that of the first chunk; keys
	slides      bool
}

// parts has one part whose band slides along with the queries, or up to four. Each of those has the
// keys that any of its queries may see.
func (a *attention) parts() []part {
	chunks := a.padded / a.c
	if w := a.c + a.before + a.after; chunks > 1 && w <= a.t*3/4 {
		return []part{{0, chunks, 0, w, true}}
	}
	var ps []part
	for i := range 4 {
		from, to := i*chunks/4*a.c, (i+1)*chunks/4*a.c
		first, end := max(0, from-a.before), min(a.t, to+a.after)
		switch last := len(ps) - 1; {
		case from == to:
		case last >= 0 && ps[last].first == first && ps[last].w == end-first:
			ps[last].count += (to - from) / a.c
		default:
			ps = append(ps, part{from, (to - from) / a.c, first, end - first, false})
		}
	}
	return ps
}

// band is a chunk of queries with its keys.
type band struct {
	*attention
	operands
	part
	query, key value // first row of each in its entry; I32 scalars
}

// each calls f for all chunks with carried values, and returns the last ones.
func (a *attention) each(carried []value, f func(x *band, carried []value) []value) []value {
	for _, p := range a.parts() {
		n := len(carried)
		body := func(i value, in []value) []value {
			x := &band{attention: a, operands: a.operands, part: p}
			rest := in[n:]
			for _, field := range x.fields() {
				if field.id != "" {
					*field, rest = rest[0], rest[1:]
				}
			}
			x.query = a.binary("add", a.binary("multiply", i, a.i32(a.c)), a.i32(p.from))
			x.key = a.i32(p.first)
			if p.slides {
				at := a.binary("maximum", a.binary("subtract", x.query, a.i32(a.before)), a.i32(0))
				x.key = a.binary("minimum", at, a.i32(a.t-p.w))
			}
			outer := a.streams
			if x.stream.id != "" {
				a.streams = map[uint64]value{a.p.Key.Stream: x.stream}
			}
			next := f(x, in[:n])
			a.streams = outer
			return append(next, in[n:]...)
		}
		all := carried
		for _, field := range a.fields() {
			if field.id != "" {
				all = append(all, *field)
			}
		}
		if p.count == 1 {
			carried = body(a.i32(0), all)[:n]
		} else {
			carried = a.loop(p.count, all, body)[:n]
		}
	}
	return carried
}

// queries is the chunk of x, whose dimension 1 is rows or rows times heads.
func (x *band) queries(v value) value {
	per := v.dims[1] / x.padded
	return x.cut(v, x.binary("multiply", x.query, x.i32(per)), x.c*per)
}

func (x *band) keys(v value) value { return x.cut(v, x.key, x.w) }

// cut is n elements of dimension 1.
func (x *band) cut(v, from value, n int) value {
	if v.dims[1] == n {
		return v
	}
	dims := append([]int{}, v.dims...)
	dims[1] = n
	return x.dynamicSlice(v, dims, x.index(v, from)...)
}

func (x *band) index(v, from value) []value {
	at := make([]value, len(v.dims))
	for i := range at {
		at[i] = x.i32(0)
	}
	at[1] = from
	return at
}

// putQueries overwrites the chunk of v.
func (x *band) putQueries(v, by value) value {
	if by.dims[1] == v.dims[1] {
		return by
	}
	per := v.dims[1] / x.padded
	return x.update(v, by, x.index(v, x.binary("multiply", x.query, x.i32(per)))...)
}

// addKeys adds to the band of v.
func (x *band) addKeys(v, by value) value {
	sum := x.binary("add", x.keys(v), by)
	if by.dims[1] == v.dims[1] {
		return sum
	}
	return x.update(v, sum, x.index(v, x.key)...)
}

// masked are the scaled scores [B*K C*G W], minus infinity where masked.
func (x *band) masked() value {
	s := x.product(x.queries(x.q), x.keys(x.k), 2, 2)
	s = x.binary("multiply", s, x.splat("f32", x.p.Scale, s.dims...))
	sees, ok := x.sees()
	if !ok {
		return s
	}
	dims := x.dims()
	low := x.splat("f32", math.Inf(-1), dims...)
	return x.reshape(x.selects(x.broadcast(sees, []int{0, 2, 4}, dims...), x.reshape(s, dims...), low), s.dims...)
}

// dims are the dimensions of scores.
func (x *band) dims() []int { return []int{x.b, x.p.KVHeads, x.c, x.g, x.w} }

// rowNumbers are the positions of queries and keys in their entries [B C W].
func (x *band) rowNumbers() (query, key value) {
	return x.byQuery(x.numbers(x.query, x.c)), x.byKey(x.numbers(x.key, x.w))
}

func (x *band) numbers(from value, n int) value {
	return x.binary("add", x.iota("i32", n), x.broadcast(from, nil, n))
}

// byQuery broadcasts [B C] or [C] to [B C W].
func (x *band) byQuery(v value) value {
	return x.broadcast(v, []int{0, 1}[2-len(v.dims):], x.b, x.c, x.w)
}

// byKey broadcasts [B W] or [W] to [B C W].
func (x *band) byKey(v value) value {
	return x.broadcast(v, []int{0, 2}[2-len(v.dims):], x.b, x.c, x.w)
}

// sees reports which keys a query sees [B C W]; ok is false if it sees all.
func (x *band) sees() (sees value, ok bool) {
	also := func(y value) {
		if ok {
			y = x.binary("and", sees, y)
		}
		sees, ok = y, true
	}
	if x.p.Causal || x.p.Window > 0 {
		query, key := x.rowNumbers()
		if x.p.Causal {
			also(x.compare(key, query, "LE"))
		}
		if x.p.Window > 0 {
			also(x.compare(key, x.binary("subtract", query, x.splat("i32", float64(x.p.Window), query.dims...)), "GT"))
		}
	}
	if x.qSeq.id != "" {
		query := x.byQuery(x.queries(x.qSeq))
		also(x.compare(query, x.byKey(x.keys(x.kSeq)), "EQ"))
		also(x.compare(query, x.splat("i32", 0, query.dims...), "GT"))
	}
	if x.qDoc.id != "" {
		also(x.compare(x.byQuery(x.queries(x.qDoc)), x.byKey(x.keys(x.kDoc)), "EQ"))
	}
	return sees, ok
}

// drop applies dropout to [B*K C*G W].
func (x *band) drop(w value) value {
	if x.p.Dropout == 0 {
		return w
	}
	_, key := x.rowNumbers()
	if x.qSeq.id != "" { // position in the sequence
		query := x.byQuery(x.queries(x.qSeq))
		key = x.binary("add", x.binary("subtract", key, query), x.splat("i32", 1, key.dims...))
	}
	dims := x.dims()
	num := func(v int) value { return x.splat("i64", float64(v), dims...) }
	row := x.broadcast(x.queries(x.ids), []int{0, 2}, dims...)
	head := x.binary("add", x.binary("multiply", x.along(dims, 1), num(x.g)), x.along(dims, 3))
	at := x.binary("add", x.binary("multiply", row, num(x.p.Heads)), head)
	at = x.binary("add", x.binary("multiply", at, num(x.p.MaxSeqLen)), x.convert(x.broadcast(key, []int{0, 2, 4}, dims...), "i64"))
	word := x.reshape(x.words(x.flat(at), x.p.Key), w.dims...)
	kept := x.compare(word, x.splat("i64", math.Ceil(x.p.Dropout*0x1p32), w.dims...), "GE")
	scaled := x.binary("multiply", w, x.splat("f32", 1/(1-x.p.Dropout), w.dims...))
	return x.selects(kept, scaled, x.splat("f32", 0, w.dims...))
}

// along is each element's index on a dimension, I64.
func (x *band) along(dims []int, dim int) value {
	return x.broadcast(x.iota("i64", dims[dim]), []int{dim}, dims...)
}

// product contracts dimension xc of x with yc of y, batched by dimension 0, in F32. Operands of one
// 16-bit type are multiplied as they are.
func (e *emitter) product(x, y value, xc, yc int) value {
	if x.elem != y.elem {
		x, y = e.convert(x, "f32"), e.convert(y, "f32")
	}
	return e.dot(x, y, xc, yc, 1, "f32")
}

// byRow broadcasts a number per row to [B*K C*G W].
func (x *band) byRow(v value) value {
	return x.broadcast(v, []int{0, 1}, x.b*x.p.KVHeads, x.c*x.g, x.w)
}

// Attention calls cuDNN where the target has it. The formula: with s the scores of a row, m = max(s) and
// z = sum exp(s-m), lse = m + log z and o = dropout(exp(s-m)) v / z.
func (e *emitter) Attention(o, lse, q, k, v, docs *tensor.Tensor, p tensor.AttentionParams) {
	if q.Rows() == 0 {
		return
	}
	if ops, ok := e.cudnn(); ok {
		if ok, _ := ops.Attention(o, lse, q, k, v, docs, p); ok {
			return
		}
	}
	a := e.attend(q, k, v, docs, p)
	heads, to := a.q.dims[:2], elems[o.DType()]
	outs := a.each([]value{e.splat(to, 0, a.q.dims...), e.splat("f32", 0, heads...)}, func(x *band, outs []value) []value {
		s := x.masked()
		m := x.reduce(s, 2, "maximum", math.Inf(-1))
		zero, one := x.splat("f32", 0, m.dims...), x.splat("f32", 1, m.dims...)
		some := x.compare(m, x.splat("f32", math.Inf(-1), m.dims...), "GT")
		m = x.selects(some, m, zero)
		w := x.binary("subtract", s, x.byRow(m))
		w = x.op("exponential", "", "f32", w.dims, w)
		z := x.reduce(w, 2, "add", 0)
		z = x.selects(some, z, one)
		out := x.product(x.convert(x.drop(w), x.v.elem), x.keys(x.v), 2, 1)
		out = x.binary("divide", out, x.broadcast(z, []int{0, 1}, out.dims...))
		l := x.binary("add", m, x.op("log", "", "f32", z.dims, z))
		return []value{x.putQueries(outs[0], x.convert(out, to)), x.putQueries(outs[1], l)}
	})
	e.store(o, a.join(a.unpad(outs[0])))
	e.store(lse, a.transpose(e.reshape(a.unpad(outs[1]), a.b, p.KVHeads, a.t, a.g), 1, 3, 0, 2))
}

// AttentionBackward calls cuDNN where the target has it. The formula: with w = exp(s - lse), dv = dropout(w)^T do, ds = w (dropout(do v^T) - rowsum(do
// o)) scale, dq = ds k and dk = ds^T q.
func (e *emitter) AttentionBackward(dq, dk, dv, do, o, lse, q, k, v, docs *tensor.Tensor, p tensor.AttentionParams) {
	if q.Rows() == 0 {
		return
	}
	if ops, ok := e.cudnn(); ok {
		if ok, _ := ops.AttentionBackward(dq, dk, dv, do, o, lse, q, k, v, docs, p); ok {
			return
		}
	}
	a := e.attend(q, k, v, docs, p)
	heads := []int{a.b * a.t, p.Heads, p.E}
	g := e.load(do)
	y := e.binary("multiply", e.convert(g, "f32"), e.convert(e.load(o), "f32"))
	delta := e.reduce(e.reshape(y, heads...), 2, "add", 0)
	byRow := func(x value, order ...int) value { // [B*K T*G] from dimensions in an order
		return a.pad(e.reshape(e.transpose(x, order...), a.b*p.KVHeads, a.t*a.g))
	}
	a.delta = byRow(e.reshape(delta, a.b, a.t, p.KVHeads, a.g), 0, 2, 1, 3)
	a.lse = byRow(e.reshape(e.convert(e.load(lse), "f32"), p.KVHeads, a.g, a.b, a.t), 2, 0, 3, 1)
	a.do = a.pad(a.split(g))
	// The scores of forward must not be kept.
	in := e.barrier([]value{a.q, a.k, a.v, a.do})
	a.q, a.k, a.v, a.do = in[0], in[1], in[2], in[3]
	zero := e.splat("f32", 0, a.k.dims...)
	outs := a.each([]value{e.splat(elems[dq.DType()], 0, a.q.dims...), zero, zero}, func(x *band, outs []value) []value {
		w := x.binary("subtract", x.masked(), x.byRow(x.queries(x.lse)))
		w = x.op("exponential", "", "f32", w.dims, w)
		q, k, g := x.queries(x.q), x.keys(x.k), x.queries(x.do)
		dw := x.drop(x.product(g, x.keys(x.v), 2, 2))
		ds := x.binary("multiply", w, x.binary("subtract", dw, x.byRow(x.queries(x.delta))))
		ds = x.binary("multiply", ds, x.splat("f32", p.Scale, ds.dims...))
		return []value{
			x.putQueries(outs[0], x.convert(x.product(x.convert(ds, k.elem), k, 2, 1), outs[0].elem)),
			x.addKeys(outs[1], x.product(x.convert(ds, q.elem), q, 1, 1)),
			x.addKeys(outs[2], x.product(x.convert(x.drop(w), g.elem), g, 1, 1)),
		}
	})
	e.store(dq, a.join(a.unpad(outs[0])))
	e.store(dk, a.join(outs[1]))
	e.store(dv, a.join(outs[2]))
}

// AttentionDecode is attention of one query over all rows, masked after at and outside the window.
func (e *emitter) AttentionDecode(o, q, k, v, at *tensor.Tensor, p tensor.AttentionParams) {
	n, g := k.Rows(), p.Heads/p.KVHeads
	kv := func(t *tensor.Tensor) value {
		return e.transpose(e.reshape(e.load(t), n, p.KVHeads, p.E), 1, 0, 2)
	}
	rows, last := e.iota("i32", n), e.broadcast(e.reshape(e.load(at)), nil, n)
	sees := e.compare(rows, last, "LE")
	if p.Window > 0 {
		sees = e.binary("and", sees, e.compare(rows, e.binary("subtract", last, e.splat("i32", float64(p.Window), n)), "GT"))
	}
	s := e.product(e.reshape(e.load(q), p.KVHeads, g, p.E), kv(k), 2, 2)
	s = e.binary("multiply", s, e.splat("f32", p.Scale, s.dims...))
	s = e.selects(e.broadcast(sees, []int{2}, s.dims...), s, e.splat("f32", math.Inf(-1), s.dims...))
	m := e.reduce(s, 2, "maximum", math.Inf(-1)) // finite: a query sees its own row
	w := e.binary("subtract", s, e.broadcast(m, []int{0, 1}, s.dims...))
	w = e.op("exponential", "", "f32", w.dims, w)
	z := e.reduce(w, 2, "add", 0)
	y := kv(v)
	y = e.selects(e.broadcast(sees, []int{1}, y.dims...), y, e.splat(y.elem, 0, y.dims...)) // 0 * NaN is NaN
	out := e.product(e.convert(w, y.elem), y, 2, 1)
	e.store(o, e.binary("divide", out, e.broadcast(z, []int{0, 1}, out.dims...)))
}
