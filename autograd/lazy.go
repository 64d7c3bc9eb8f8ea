package autograd

import "trireme/tensor"

// deferred is a value computed at once, or on first read if the tape is lazy. In a checkpoint, an
// operation that only its result needs (a layer's last product, and the sum with the residual) is
// then not recomputed.
func (t *Tape) deferred(compute func() *tensor.Tensor, inputs ...*Var) *Var {
	if !t.lazy {
		return t.newVar(compute(), inputs...)
	}
	y := t.newVar(nil, inputs...)
	y.deferred = compute
	return y
}

// product is a deferred value that a checkpoint's policy may save.
func (t *Tape) product(compute func() *tensor.Tensor, inputs ...*Var) *Var {
	y := t.deferred(compute, inputs...)
	if t.takeSaved(SaveMatMul, y) {
		y.deferred = nil
	}
	return y
}

// recomputed is a value that is cheap to recompute from x. It is freed, and recomputed when read.
func (t *Tape) recomputed(compute func() *tensor.Tensor, x *Var) *Var {
	y := t.deferred(compute, x)
	y.recompute, y.source = compute, x
	return y
}

// force computes a deferred value.
func (v *Var) force() {
	if v.deferred != nil {
		v.Value, v.deferred = v.deferred(), nil
	}
}

// SavePolicy names results that a checkpoint saves instead of recomputing.
type SavePolicy uint8

// Results of attention, and results of matrix products that backward reads.
const (
	SaveAttention SavePolicy = 1 << iota
	SaveMatMul
)

// results are those saved by a checkpoint. A recomputation takes them in the order of the first run.
type results struct {
	policy SavePolicy
	list   []*result

	collected int // entries of list
	next      int // of the recomputation
}

// result is the result of one operation.
type result struct {
	of      []*Var           // during the first run
	values  []*tensor.Tensor // after it; nil if backward reads none
	rotated bool             // Rope has been applied in place
}

// takeSaved returns whether the results vs of an operation are saved, and sets them. The first run
// registers them instead.
func (t *Tape) takeSaved(kind SavePolicy, vs ...*Var) bool {
	k := t.kept
	switch {
	case k == nil || k.policy&kind == 0:
		return false
	case !t.grad:
		r := &result{of: vs}
		k.list = append(k.list, r)
		vs[0].kept = r
		return false
	case k.next == len(k.list): // the first run was deferred, and its result not read
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

// collect takes over the results of the first run, except out, its output. Only out needs those
// that nothing has read yet.
func (k *results) collect(out *Var) {
	for ; k.collected < len(k.list); k.collected++ {
		r := k.list[k.collected]
		if first := r.of[0]; first.Value != nil && first != out {
			for _, v := range r.of {
				r.values = append(r.values, v.Value)
				v.owned = false
			}
		}
		r.of = nil
	}
}

// drop frees what the recomputation did not take.
func (k *results) drop() {
	for _, r := range k.list {
		for _, v := range r.values {
			v.Release()
		}
		r.values = nil
	}
}
