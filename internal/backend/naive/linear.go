package naive

import (
	"math"

	"trireme/tensor"
)

func (b *Backend) MatMul(dst, x, y *tensor.Tensor, op tensor.MatMulOp) {
	batch := 1
	if len(dst.Shape()) == 3 {
		batch = dst.Dim(0)
	}
	for i := range batch {
		part := func(t *tensor.Tensor) *tensor.Tensor {
			if batch == 1 {
				return t
			}
			r := t.Dim(1)
			return t.RowRange(i*r, (i+1)*r)
		}
		matmul(part(dst), part(x), part(y), op)
	}
}

func matmul(dst, x, y *tensor.Tensor, op tensor.MatMulOp) {
	k := x.Width()
	if op.TransA {
		k = x.Rows()
	}
	out := make([]float64, 0, dst.Elems())
	for i := range dst.Rows() {
		for j := range dst.Width() {
			sum := 0.0
			for l := range k {
				u, v := 0.0, 0.0
				if op.TransA {
					u = get(x, l, i)
				} else {
					u = get(x, i, l)
				}
				if op.TransB {
					v = get(y, j, l)
				} else {
					v = get(y, l, j)
				}
				sum += u * v
			}
			out = append(out, sum)
		}
	}
	write(dst, out, op.Accumulate)
}

// dropFactor is 1/(1-p), or 0 if element e of the key's stream is dropped.
func dropFactor(key tensor.RandKey, e uint64, p float64) float64 {
	if float64(word(key, e)) < p*0x1p32 {
		return 0
	}
	return 1 / (1 - p)
}

// attentionDrop is dropFactor for key j, head h, row n.
func attentionDrop(p tensor.AttentionParams, n, h, j int) float64 {
	if p.Dropout == 0 {
		return 1
	}
	row := uint64(get(p.Rows, 0, n))
	return dropFactor(p.Key, (row*uint64(p.Heads)+uint64(h))*uint64(p.MaxSeqLen)+uint64(j), p.Dropout)
}

// attends reports whether position i of a sequence attends to j.
func attends(p tensor.AttentionParams, docs *tensor.Tensor, row0, i, j int) bool {
	switch {
	case p.Causal && j > i:
		return false
	case p.Window > 0 && j <= i-p.Window:
		return false
	case docs != nil && get(docs, 0, row0+i) != get(docs, 0, row0+j):
		return false
	}
	return true
}

// sequence is one sequence's first row and length.
type sequence struct{ first, rows int }

// sequences lists the sequences.
func sequences(p tensor.AttentionParams) (all []sequence) {
	for b := range p.Starts.Elems() - 1 {
		first := int(get(p.Starts, 0, b))
		all = append(all, sequence{first, int(get(p.Starts, 0, b+1)) - first})
	}
	return all
}

// scores are the softmax of position i, row n of q, over all positions, and its log-sum-exp.
func scores(q *tensor.Tensor, n int, k, docs *tensor.Tensor, p tensor.AttentionParams, s sequence, h, i int) (w []float64, lse float64) {
	w = make([]float64, s.rows)
	top, kh := math.Inf(-1), h/(p.Heads/p.KVHeads)
	for j := range w {
		w[j] = math.Inf(-1)
		if attends(p, docs, s.first, i, j) {
			w[j] = 0
			for e := range p.E {
				w[j] += get(q, n, h*p.E+e) * get(k, s.first+j, kh*p.E+e)
			}
			w[j] *= p.Scale
			top = math.Max(top, w[j])
		}
	}
	if math.IsInf(top, -1) {
		return make([]float64, s.rows), 0
	}
	sum := 0.0
	for j := range w {
		w[j] = math.Exp(w[j] - top)
		sum += w[j]
	}
	for j := range w {
		w[j] /= sum
	}
	return w, top + math.Log(sum)
}

// attend computes head h of row n of o, position i of its sequence, and returns the log-sum-exp.
func attend(o, q *tensor.Tensor, n int, k, v, docs *tensor.Tensor, p tensor.AttentionParams, s sequence, h, i int) float64 {
	w, lse := scores(q, n, k, docs, p, s, h, i)
	for e := range p.E {
		sum := 0.0
		for j := range w {
			if w[j] != 0 {
				sum += w[j] * attentionDrop(p, s.first+i, h, j) * get(v, s.first+j, h/(p.Heads/p.KVHeads)*p.E+e)
			}
		}
		set(o, n, h*p.E+e, sum)
	}
	return lse
}

func (b *Backend) Attention(o, lse, q, k, v, docs *tensor.Tensor, p tensor.AttentionParams) {
	b.Fill(o, 0)
	b.Fill(lse, 0)
	for _, s := range sequences(p) {
		for h := range p.Heads {
			for i := range s.rows {
				set(lse, h, s.first+i, attend(o, q, s.first+i, k, v, docs, p, s, h, i))
			}
		}
	}
}

func (b *Backend) AttentionDecode(o, q, k, v, at *tensor.Tensor, p tensor.AttentionParams) {
	p.Causal, p.Dropout = true, 0
	pos := int(geti(at, 0, 0))
	for h := range p.Heads {
		attend(o, q, 0, k, v, nil, p, sequence{0, pos + 1}, h, pos)
	}
}

// AttentionBackward: with dropout factors m, dv = (w m)^T do; ds = w (m do v^T - rowsum(do o)); dq
// = ds k scale; dk = ds^T q scale.
func (b *Backend) AttentionBackward(dq, dk, dv, do, o, lse, q, k, v, docs *tensor.Tensor, p tensor.AttentionParams) {
	gq, gk, gv := make([]float64, dq.Elems()), make([]float64, dk.Elems()), make([]float64, dv.Elems())
	wq, wk := dq.Width(), dk.Width()
	for _, s := range sequences(p) {
		for h := range p.Heads {
			kh := h / (p.Heads / p.KVHeads)
			for i := range s.rows {
				w, _ := scores(q, s.first+i, k, docs, p, s, h, i)
				ri, delta := s.first+i, 0.0
				for e := range p.E {
					delta += get(do, ri, h*p.E+e) * get(o, ri, h*p.E+e)
				}
				for j := range w {
					if w[j] == 0 {
						continue
					}
					rj, m, dw := s.first+j, attentionDrop(p, ri, h, j), 0.0
					for e := range p.E {
						dw += get(do, ri, h*p.E+e) * get(v, rj, kh*p.E+e)
						gv[rj*wk+kh*p.E+e] += w[j] * m * get(do, ri, h*p.E+e)
					}
					ds := w[j] * (m*dw - delta) * p.Scale
					for e := range p.E {
						gq[ri*wq+h*p.E+e] += ds * get(k, rj, kh*p.E+e)
						gk[rj*wk+kh*p.E+e] += ds * get(q, ri, h*p.E+e)
					}
				}
			}
		}
	}
	write(dq, gq, false)
	write(dk, gk, false)
	write(dv, gv, false)
}
