package autograd

import "trireme/tensor"

// delayed is a value that compute makes: at once, or, in a part of a pass that is computed
// twice, when it is first read. What only the result of such a part is made of (the last
// product of a layer, and its sum with the residual) is then never computed a second time.
func (t *Tape) delayed(compute func() *tensor.Tensor, inputs ...*Var) *Var {
	if !t.lazy {
		return t.newVar(compute(), inputs...)
	}
	y := t.newVar(nil, inputs...)
	y.delay = compute
	return y
}

// product is a delayed value that a Checkpoint may keep.
func (t *Tape) product(compute func() *tensor.Tensor, inputs ...*Var) *Var {
	y := t.delayed(compute, inputs...)
	if t.takeKept(SaveMatMul, y) {
		y.delay = nil
	}
	return y
}

// remade is a value that is cheap to make of x: it is released, and recomputed where it is wanted.
func (t *Tape) remade(compute func() *tensor.Tensor, x *Var) *Var {
	y := t.delayed(compute, x)
	y.remake, y.source = compute, x
	return y
}

// force makes a delayed value.
func (v *Var) force() {
	if v.delay != nil {
		v.Value, v.delay = v.delay(), nil
	}
}

// SavePolicy names results of a Checkpoint that are kept although the rest is computed again.
type SavePolicy uint8

// The kinds of results: what attention gives, and what products of matrices give that the way
// back reads.
const (
	SaveAttention SavePolicy = 1 << iota
	SaveMatMul
)

// results are what a Checkpoint keeps: the second run takes them in the order in which the
// first made them.
type results struct {
	what SavePolicy
	list []*result

	settled int // of the list
	next    int // of the second run
}

// result is what one operation made.
type result struct {
	of      []*Var           // in the first run
	values  []*tensor.Tensor // afterwards; nil where the way back reads none
	rotated bool             // rotary embedding has been applied in place
}

// takeKept says whether what an operation makes, vs, has been kept, and is there now. In the
// first run it has not: it is noted instead.
func (t *Tape) takeKept(kind SavePolicy, vs ...*Var) bool {
	k := t.kept
	switch {
	case k == nil || k.what&kind == 0:
		return false
	case !t.grad:
		r := &result{of: vs}
		k.list = append(k.list, r)
		vs[0].kept = r
		return false
	case k.next == len(k.list): // the first run was put off, and nobody read its result
		return false
	}
	r := k.list[k.next]
	k.next++
	if r.values == nil {
		return false
	}
	for i, v := range vs {
		v.Value = r.values[i]
	}
	vs[0].kept, r.values = r, nil
	return true
}

// settle takes from the first run what it made, but out, its own result. What nobody has read
// by now only out is made of.
func (k *results) settle(out *Var) {
	for ; k.settled < len(k.list); k.settled++ {
		r := k.list[k.settled]
		if first := r.of[0]; first.Value != nil && first != out {
			for _, v := range r.of {
				r.values = append(r.values, v.Value)
				v.owned = false
			}
		}
		r.of = nil
	}
}

// drop releases what no second run has taken.
func (k *results) drop() {
	for _, r := range k.list {
		for _, v := range r.values {
			v.Release()
		}
		r.values = nil
	}
}
