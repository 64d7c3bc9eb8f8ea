package record

import (
	"context"
	"fmt"
	"reflect"

	"trireme/tensor"
)

// Replay runs p on the wrapped backend with the inputs, buffers and coordinates of rec, a recording
// of r, and sets its results. p is rec's program or one with the same text, of another step or
// rank. Scratch is undefined afterwards. All ranks of a group must replay concurrently.
func (r *Backend) Replay(ctx context.Context, p *Program, rec *Recording) error {
	if r.step != nil {
		fail("Replay", "a step is being recorded")
	}
	if len(p.Buffers) != len(rec.Bound) {
		return fmt.Errorf("record: a program of %d buffers cannot run on a recording of %d", len(p.Buffers), len(rec.Bound))
	}
	e := &execution{r: r, p: p, rec: rec, bufs: make([]*tensor.Buffer, len(p.Buffers)), inputs: rec.Inputs, results: rec.results}
	for i, buf := range rec.Bound {
		if buf != nil {
			e.bufs[i] = r.buffers[buf]
		}
	}
	for i := range p.Ops {
		if err := e.run(ctx, &p.Ops[i]); err != nil {
			return fmt.Errorf("record: operation %d, %s: %w", i, p.Ops[i].Name, err)
		}
		for _, num := range p.last[i] {
			e.bufs[num].Release()
			e.bufs[num] = nil
		}
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

// execution is a running program.
type execution struct {
	r       *Backend
	p       *Program
	rec     *Recording
	bufs    []*tensor.Buffer // inner, by number
	inputs  [][]byte         // remaining
	results []*[]byte        // remaining
}

func (e *execution) run(ctx context.Context, op *Op) error {
	args := make([]reflect.Value, len(op.Args))
	for i := range op.Args {
		views := op.Args[i].Views
		args[i] = reflect.ValueOf(withTensors(op.Args[i].template, func(*tensor.Tensor) *tensor.Tensor {
			v := &views[0]
			views = views[1:]
			return e.tensor(v)
		}))
	}
	switch op.kind {
	case upload:
		if len(e.inputs) == 0 {
			return fmt.Errorf("the recording has %d inputs", len(e.rec.Inputs))
		}
		e.r.inner.Upload(e.tensor(&op.Args[0].Views[0]), e.inputs[0])
		e.inputs = e.inputs[1:]
	case result:
		if len(e.results) == 0 {
			return fmt.Errorf("the recording has %d results", len(e.rec.results))
		}
		src := e.tensor(&op.Args[0].Views[0])
		*e.results[0] = make([]byte, src.Bytes())
		e.r.inner.Download(*e.results[0], src)
		e.results = e.results[1:]
	case communication:
		return e.r.groups[op.Group].run(ctx, op.Name, args)
	default:
		invoke(e.r.inner, op.Name, args)
	}
	return nil
}

// tensor is the inner tensor of a view.
func (e *execution) tensor(v *View) *tensor.Tensor {
	if v.Buffer < 0 {
		return nil
	}
	if e.bufs[v.Buffer] == nil {
		b := e.p.Buffers[v.Buffer]
		e.bufs[v.Buffer] = e.r.inner.New(b.Cat, tensor.U8, b.Size).Buffer()
		e.r.poison(e.bufs[v.Buffer])
	}
	return tensor.Strided(e.bufs[v.Buffer], v.DType, v.Offset+e.rec.Coordinates[v.Axis]*v.Elems, v.RowStride, v.Shape...)
}
