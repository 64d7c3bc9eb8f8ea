package parallel

import (
	"trireme/collective"
	"trireme/nn"
	"trireme/tensor"
)

// bucketsInFlight is the limit of buckets being reduced besides the one being written.
const bucketsInFlight = 2

type reduction struct {
	ops    []op
	under  *ticket
	bucket *tensor.Tensor // released after ops, unless nil
	after  func()         // called then by the engine's goroutine, unless nil
}

func (r *reduction) then(o op) { r.ops = append(r.ops, o) }

func (e *Engine) gradDst(f *flat, p *nn.Param, start int) (dst *tensor.Tensor, accumulate bool) {
	if f.grads != writing {
		e.openBucket(f)
	}
	accumulate = f.written[p]
	f.written[p] = true
	return f.bucket.Flat(start, start+p.Local.Elems()).Reshape(p.Local.Sizes...), accumulate
}

// openBucket allocates the bucket of a micro-batch's gradients of f. If possible it is f.grad itself: empty,
// unsharded, of type Precision.Reduce, and without additions by other ranks.
func (e *Engine) openBucket(f *flat) {
	clear(f.written)
	e.allocateGrad(f)
	if f.batches == 0 && !e.step.zeroed && f.layout.grad.len() == f.padded && e.precision.Reduce == f.grad.DType() && (e.mesh.ranks() == 1 || e.accumulatesLocally()) {
		f.open(f.grad)
	} else {
		e.drain(bucketsInFlight - 1)
		f.open(e.b.New(tensor.Buckets, e.precision.Reduce, f.padded))
	}
	for _, g := range f.gaps {
		e.b.Fill(f.bucket.Flat(g.lo, g.hi), 0)
	}
}

// allocateGrad allocates the gradient of f, unless it has one.
func (e *Engine) allocateGrad(f *flat) {
	if f.grad == nil {
		f.grad = e.b.New(tensor.Grads, tensor.F32, f.layout.grad.len())
	}
}

// freeGrad frees the gradient of the last step.
func (e *Engine) freeGrad(f *flat) {
	if f.grad != nil {
		f.grad.Release()
		f.grad = nil
	}
}

// accumulatesLocally reports whether micro-batches are summed on each rank and reduced once a step:
// fewer collectives, but the order of sums depends on the world size.
func (e *Engine) accumulatesLocally() bool {
	return !e.inOrder && !e.strategy.Grads && e.step.accumulation > 1
}

// reduce adds a micro-batch's gradients of f to the accumulated ones, locally or over ranks.
func (e *Engine) reduce(f *flat) {
	if f.grads != writing { // no gradient reached the unit: it is zero
		e.openBucket(f)
	}
	for i, p := range f.params {
		if !f.written[p] {
			e.b.Fill(f.bucket.Flat(f.starts[i], f.starts[i]+p.Local.Elems()), 0)
		}
	}
	bucket, first := f.close()
	first = first && !e.step.zeroed
	last := e.step.micro == e.step.accumulation-1
	r := reduction{}
	if bucket != f.grad {
		r.bucket = bucket
	}
	switch {
	case e.mesh.ranks() == 1:
		if r.bucket != nil {
			e.add(f.grad, bucket, first)
		}
	case e.accumulatesLocally():
		if r.bucket != nil {
			e.add(f.grad, bucket, first)
		}
		if last {
			e.reduceOnce(f, &r)
		}
	case e.inOrder:
		own := f.at(f.grad, f.layout.grad, f.own)
		r.then(reduceScatter(e.mesh.Data, own, bucket, collective.ReduceOptions{Accumulate: !first, Chunks: e.chunks}, f.unit.Name))
		if last {
			e.gatherGrads(f, &r)
		}
	default:
		part := f.at(f.grad, f.layout.grad, f.shard(e.mesh))
		r.then(reduceScatter(e.mesh.Group(Shard), part, bucket, collective.ReduceOptions{Accumulate: !first}, f.unit.Name))
		if last {
			e.mergeReplicas(f, part, &r)
		}
	}
	switch {
	case len(r.ops) > 0:
		r.under = e.issue(r.ops...)
		e.pending = append(e.pending, r)
	case r.bucket != nil:
		r.bucket.Release()
	}
}

func (e *Engine) add(dst, src *tensor.Tensor, first bool) {
	if first {
		e.b.Copy(dst, src)
		return
	}
	e.b.AddScaled(dst, src, 1)
}

// gatherGrads all-gathers reduced gradients from the range that this rank owns alone to the range that
// it updates.
func (e *Engine) gatherGrads(f *flat, r *reduction) {
	own := f.at(f.grad, f.layout.grad, f.own)
	switch f.optim.len() {
	case f.own.len():
	case f.padded:
		r.then(allGather(e.mesh.Data, f.grad, own, f.unit.Name))
	default:
		r.then(allGather(e.mesh.Group(Replicate), f.at(f.grad, f.layout.grad, f.optim), own, f.unit.Name))
	}
}

// mergeReplicas all-reduces over replicas the gradients that each has reduced over its shards.
func (e *Engine) mergeReplicas(f *flat, part *tensor.Tensor, r *reduction) {
	if e.mesh.Size(Replicate) > 1 {
		r.then(allReduce(e.mesh.Group(Replicate), part, collective.Sum, f.unit.Name))
	}
	if f.optim.len() > part.Elems() {
		r.then(allGather(e.mesh.Group(Shard), f.grad, part, f.unit.Name))
	}
}

// reduceOnce reduces the gradients that each rank has summed over its micro-batches.
func (e *Engine) reduceOnce(f *flat, r *reduction) {
	own := f.at(f.grad, f.layout.grad, f.own)
	if bucket := r.bucket; e.precision.Reduce != f.grad.DType() { // the last micro-batch's bucket, already added
		e.b.Copy(bucket, f.grad)
		r.then(reduceScatter(e.mesh.Data, own, bucket, collective.ReduceOptions{}, f.unit.Name))
		if f.optim.len() == f.padded {
			r.then(allGather(e.mesh.Data, f.grad, own, f.unit.Name))
		}
		return
	}
	sum := e.b.New(tensor.Buckets, tensor.F32, f.own.len())
	r.then(reduceScatter(e.mesh.Data, sum, f.grad, collective.ReduceOptions{}, f.unit.Name))
	if f.optim.len() == f.padded {
		r.then(allGather(e.mesh.Data, f.grad, sum, f.unit.Name))
		r.after = sum.Release
		return
	}
	r.after = func() {
		e.b.Copy(own, sum)
		sum.Release()
	}
}

// drain waits for the oldest reductions until no more than n are pending.
func (e *Engine) drain(n int) {
	for len(e.pending) > n {
		r := e.pending[0]
		e.pending = e.pending[1:]
		e.wait(r.under)
		if r.after != nil {
			r.after()
		}
		if r.bucket != nil {
			r.bucket.Release()
		}
	}
}

// at returns the range s of a flat from t, which holds the flat's range held, one element per block of
// the flat's. If s is one of equal shards, one per rank, the view says so (Tensor.RankPart).
func (f *flat) at(t *tensor.Tensor, held, s span) *tensor.Tensor {
	lo, n, all := s.lo-held.lo, s.len(), held.len()
	axis := "shard"
	switch {
	case n == all || all%n != 0 || lo%n != 0:
		block := all / t.Elems()
		return t.Flat(lo/block, (lo+n)/block)
	case all < f.padded:
		axis = "replicate"
	case n == f.own.len():
		axis = "data"
	}
	return t.RankPart(axis, lo/n, all/n)
}

// shard returns the range that this rank reduces among the shards of its replica.
func (f *flat) shard(m *Mesh) span {
	n := f.padded / m.Size(Shard)
	return span{m.Coordinate(Shard) * n, (m.Coordinate(Shard) + 1) * n}
}
