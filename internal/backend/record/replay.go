package record

import (
	"context"
	"fmt"

	"trireme/tensor"
)

// Replay runs p on the wrapped backend with the inputs, buffers and coordinates of rec, a recording
// of r, and sets its results. p is rec's program or one with the same text, of another step or
// rank. Outputs and scratch are undefined before, and scratch is afterwards. All ranks of a group must
// replay concurrently.
func (r *Backend) Replay(ctx context.Context, p *Program, rec *Recording) error {
	return r.ReplayRolled(ctx, p.straight(), rec)
}

// ReplayRolled is Replay for a rolled program.
func (r *Backend) ReplayRolled(ctx context.Context, p *Rolled, rec *Recording) error {
	if r.step != nil {
		fail("Replay", "a step is being recorded")
	}
	e := &execution{r: r, p: p, rec: rec, bufs: make([]*tensor.Buffer, len(p.Buffers)), inputs: rec.Inputs, results: rec.results}
	for i, n := range p.Bound {
		switch {
		case n >= len(rec.Bound):
			return fmt.Errorf("record: a program with buffer %d cannot run on a recording of %d", n, len(rec.Bound))
		case n >= 0 && rec.Bound[n] != nil:
			e.bufs[i] = r.memory.Inner(rec.Bound[n], true)
			if kind := p.Buffers[i].Kind; kind == Output || kind == Scratch {
				r.poison(e.bufs[i])
			}
		}
	}
	_, last := p.lifetimes()
	for i, n := range p.Nodes {
		if n.Loop != nil {
			if err := e.loop(ctx, n.Loop); err != nil {
				return fmt.Errorf("record: loop %d, %w", i, err)
			}
		} else if err := n.Op.Run(ctx, e); err != nil {
			return fmt.Errorf("record: operation %d, %s: %w", i, n.Op.Name, err)
		}
		n.uses(func(b int) {
			if last[b] == i && p.Buffers[b].Kind == Temporary && e.bufs[b] != nil {
				e.bufs[b].Release()
				e.bufs[b] = nil
			}
		})
	}
	for i, b := range p.Buffers {
		if b.Kind == Scratch {
			r.poison(e.bufs[i])
		}
	}
	return nil
}

// poison fills an inner buffer with NaN, or -1, to expose reads.
func (r *Backend) poison(buf *tensor.Buffer) {
	ones := make([]byte, buf.Size)
	for i := range ones {
		ones[i] = 0xff
	}
	r.inner.Upload(tensor.Of(buf, tensor.U8, 0, buf.Size), ones)
}

// Executor runs the operations of a program.
type Executor interface {
	// Tensor is the tensor of a view, whose buffer is not -1.
	Tensor(v *View) *tensor.Tensor
	// Backend runs the operations of tensor.Backend.
	Backend() any
	// Group runs the collectives of a group.
	Group(name string) (Collectives, error)
	// Upload writes the next input.
	Upload(dst *tensor.Tensor) error
	// Result reads the next result.
	Result(src *tensor.Tensor) error
}

// Run runs the operation by the method of its name of x.Backend or x.Group.
func (op *Op) Run(ctx context.Context, x Executor) error {
	args := make([]any, len(op.Args))
	for i := range op.Args {
		views := op.Args[i].Views
		args[i] = withTensors(op.Args[i].template, func(*tensor.Tensor) *tensor.Tensor {
			v := &views[0]
			views = views[1:]
			if v.Buffer < 0 {
				return nil
			}
			return x.Tensor(v)
		})
	}
	switch op.kind {
	case upload:
		return x.Upload(args[0].(*tensor.Tensor))
	case result:
		return x.Result(args[0].(*tensor.Tensor))
	case communication:
		g, err := x.Group(op.Group)
		if err != nil {
			return err
		}
		return collect(ctx, g, op.Name, args)
	}
	calls[op.Name](x.Backend(), args)
	return nil
}

// Tensor is the view in buf of a rank with a coordinate on its axis.
func (v *View) Tensor(buf *tensor.Buffer, coordinate int) *tensor.Tensor {
	t := tensor.Strided(buf, v.DType, v.Offset+coordinate*v.Elems, v.RowStride, v.Shape...)
	if v.Axis != "" {
		t = t.InPart(tensor.Part{Axis: v.Axis, Index: coordinate, Count: v.Count, First: v.base, Elems: v.Elems})
	}
	return t
}

// execution is a running program.
type execution struct {
	r       *Backend
	p       *Rolled
	rec     *Recording
	bufs    []*tensor.Buffer // inner, by number
	inputs  [][]byte         // remaining
	results []*func() []byte // remaining
}

func (e *execution) Backend() any { return e.r.inner }

func (e *execution) Group(name string) (Collectives, error) {
	g := e.r.groups[name]
	if g == nil {
		return nil, fmt.Errorf("group %s is not from Backend.World", name)
	}
	return g.Group, nil
}

func (e *execution) Upload(dst *tensor.Tensor) error {
	if len(e.inputs) == 0 {
		return fmt.Errorf("the recording has %d inputs", len(e.rec.Inputs))
	}
	e.r.inner.Upload(dst, e.inputs[0])
	e.inputs = e.inputs[1:]
	return nil
}

func (e *execution) Result(src *tensor.Tensor) error {
	if len(e.results) == 0 {
		return fmt.Errorf("the recording has %d results", len(e.rec.results))
	}
	out := make([]byte, src.Bytes())
	e.r.inner.Download(out, src)
	*e.results[0] = func() []byte { return out }
	e.results = e.results[1:]
	return nil
}

// Tensor is the inner tensor of a view.
func (e *execution) Tensor(v *View) *tensor.Tensor {
	return v.Tensor(e.buffer(v.Buffer), e.rec.Coordinates[v.Axis])
}

// buffer is an inner buffer; temporaries are allocated on first use.
func (e *execution) buffer(i int) *tensor.Buffer {
	if e.bufs[i] == nil {
		b := e.p.Buffers[i]
		e.bufs[i] = e.r.temporary(b.Cat, b.Size)
	}
	return e.bufs[i]
}

// temporary allocates an inner buffer with undefined content.
func (r *Backend) temporary(cat tensor.Category, size int) *tensor.Buffer {
	buf := r.inner.New(cat, tensor.U8, size).Buffer()
	r.poison(buf)
	return buf
}
