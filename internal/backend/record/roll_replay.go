package record

import (
	"context"
	"fmt"

	"trireme/tensor"
)

// straight is p without loops.
func (p *Program) straight() *Rolled {
	out := &Rolled{Buffers: p.Buffers, Bound: make([]int, len(p.Buffers)), Stacked: make([]int, len(p.Buffers)), Nodes: make([]Node, len(p.Ops))}
	for i := range p.Buffers {
		out.Bound[i] = i
	}
	for i := range p.Ops {
		out.Nodes[i].Op = &p.Ops[i]
	}
	return out
}

// Op is operation k of iteration i: Body[k] with the iteration's random streams.
func (l *Loop) Op(k, i int) *Op {
	op := l.Body[k]
	op.Args = append([]Arg(nil), op.Args...)
	for j := range op.Args {
		if a := &op.Args[j]; a.Attr != nil && len(l.Streams) > 0 {
			a.Attr = withStreams(a.Attr, func(first uint64) uint64 {
				if all, ok := l.Streams[first]; ok {
					return all[i]
				}
				return first
			})
			a.template = a.Attr
		}
	}
	return &op
}

// iteration executes the body of a loop.
type iteration struct {
	*execution
	*Loop
	i    int
	bufs []*tensor.Buffer // of Temp and Carry, by local
}

// loop runs a loop.
func (e *execution) loop(ctx context.Context, l *Loop) error {
	it := &iteration{execution: e, Loop: l, bufs: make([]*tensor.Buffer, len(l.Locals))}
	for n, x := range l.Locals {
		if x.Kind == Carry {
			it.bufs[n] = e.r.temporary(x.Cat, x.bytes())
			if x.Init.Buffer >= 0 {
				e.r.copyBytes(it.bufs[n], 0, e.buffer(x.Init.Buffer), x.Init.Start*x.DType.Size(), x.bytes())
			}
		}
	}
	for it.i = range l.Count {
		for n, x := range l.Locals {
			if x.Kind == Temp {
				it.bufs[n] = e.r.temporary(x.Cat, x.bytes())
			}
		}
		for k := range l.Body {
			if err := l.Op(k, it.i).Run(ctx, it); err != nil {
				return fmt.Errorf("iteration %d, operation %d, %s: %w", it.i, k, l.Body[k].Name, err)
			}
		}
		next, carried := make([]*tensor.Buffer, len(l.Locals)), map[*tensor.Buffer]bool{}
		for n, x := range l.Locals {
			if x.Kind == Carry {
				next[n] = it.bufs[x.Next]
				carried[next[n]] = true
			}
		}
		for _, buf := range it.bufs {
			if buf != nil && !carried[buf] {
				buf.Release()
			}
		}
		it.bufs = next
	}
	for n, x := range l.Locals {
		if x.Kind == Carry {
			if x.Last.Buffer >= 0 {
				e.r.copyBytes(e.buffer(x.Last.Buffer), x.Last.Start*x.DType.Size(), it.bufs[n], 0, x.bytes())
			}
			it.bufs[n].Release()
		}
	}
	return nil
}

// bytes is the size of a local.
func (x *Local) bytes() int { return x.Elems * x.DType.Size() }

// copyBytes copies between inner buffers.
func (r *Backend) copyBytes(dst *tensor.Buffer, to int, src *tensor.Buffer, from, n int) {
	text := make([]byte, n)
	r.inner.Download(text, tensor.Of(src, tensor.U8, from, n))
	r.inner.Upload(tensor.Of(dst, tensor.U8, to, n), text)
}

// Tensor is the inner tensor of a view of a local.
func (it *iteration) Tensor(v *View) *tensor.Tensor {
	x := &it.Locals[v.Buffer]
	at := *v
	buf := it.bufs[v.Buffer]
	if buf == nil {
		buf = it.buffer(x.Buffer)
		at.move(x.Buffer, (x.Start+it.i*x.Stride)*x.DType.Size()/v.DType.Size())
	}
	return at.Tensor(buf, it.rec.Coordinates[v.Axis])
}
