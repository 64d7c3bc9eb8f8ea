package parallel

import (
	"context"
	"fmt"

	"trireme/fault"
	"trireme/internal/disk"
	"trireme/tensor"
)

// stage is memory for a piece: for what of it lies in files.
type stage struct {
	p    *piece
	bufs []*tensor.Tensor // in order of flat.held
	busy []*disk.Transfer
}

// local is elements at of f.held[i]: on the stage where that lies in a file.
func (f *flat) local(i int, at span, s *stage) *tensor.Tensor {
	h := &f.held[i]
	if isFar(h.Tensor) {
		return s.bufs[i].Flat(h.elems(at.lo-s.p.lo), h.elems(at.hi-s.p.lo))
	}
	if at == f.optim {
		return f.at(h.Tensor, h.span, at)
	}
	return h.Flat(h.elems(at.lo-h.lo), h.elems(at.hi-h.lo))
}

// stream has do work on pieces one after the other, each on a stage with reads of flat.held, of
// which writes go back. While one is worked on the next is read and the one before is written.
func (e *Engine) stream(pieces []piece, reads, writes span, do func(*piece, *stage)) {
	if len(pieces) == 0 {
		return
	}
	stages := e.stages(pieces, min(3, len(pieces))) // one is read, one is worked on, one is written
	next := 0
	for i := range pieces {
		for ; next < len(pieces) && next <= i+min(1, len(stages)-1); next++ {
			s := &stages[next%len(stages)]
			e.settle(s) // what it held is written
			s.p = &pieces[next]
			e.transfer(s, reads, (*disk.Section).StartRead)
		}
		p, s := &pieces[i], &stages[i%len(stages)]
		e.step.unit = p.f.unit
		e.settle(s)
		do(p, s)
		e.b.Sync()
		e.transfer(s, writes, (*disk.Section).StartWrite)
	}
	for i := range stages {
		e.settle(&stages[i])
		for _, b := range stages[i].bufs {
			if b != nil {
				b.Release()
			}
		}
	}
	e.step.unit = nil
}

// stages takes memory for n pieces, whose flats hold the same.
func (e *Engine) stages(pieces []piece, n int) []stage {
	most := make([]int, len(pieces[0].f.held))
	for _, p := range pieces {
		for i, h := range p.f.held {
			if isFar(h.Tensor) {
				most[i] = max(most[i], h.elems(p.n()))
			}
		}
	}
	stages := make([]stage, n)
	for i := range stages {
		stages[i].bufs = make([]*tensor.Tensor, len(most))
		for k, elems := range most {
			if elems > 0 {
				h := pieces[0].f.held[k]
				stages[i].bufs[k] = e.b.New(h.cat, h.DType(), elems)
			}
		}
	}
	return stages
}

// transfer begins to move a range of flat.held of a stage's piece.
func (e *Engine) transfer(s *stage, which span, start func(*disk.Section, []byte, int64) *disk.Transfer) {
	if e.files.hollow {
		return
	}
	for i := which.lo; i < which.hi; i++ {
		if h := &s.p.f.held[i]; isFar(h.Tensor) {
			at := int64(h.elems(s.p.lo-h.lo)) * int64(h.DType().Size())
			s.busy = append(s.busy, start(h.Buffer().Backing.(*disk.Section), tensor.HostBytes(s.bufs[i].Flat(0, h.elems(s.p.n()))), at))
		}
	}
}

// settle waits for what moves on a stage.
func (e *Engine) settle(s *stage) {
	var failed error
	for _, t := range s.busy {
		if err := t.Wait(); failed == nil {
			failed = err
		}
	}
	s.busy = s.busy[:0]
	if failed != nil {
		panic(failure{fmt.Errorf("unit %s: %w", s.p.f.unit.Name, offloadFailed(failed))})
	}
}

func offloadFailed(err error) error {
	return fault.Try(fmt.Errorf("offload: %w", err), "another path, with space for it, or device: none")
}

// fetch begins to read the parameters that lie in a file into dst. What it returns waits for them;
// the disk answers in any case.
func (e *Engine) fetch(f *flat, dst *tensor.Tensor) op {
	if e.files.hollow {
		return func(context.Context) error { return nil }
	}
	t := f.param.Buffer().Backing.(*disk.Section).StartRead(tensor.HostBytes(dst), 0)
	return func(context.Context) error {
		if err := t.Wait(); err != nil {
			return offloadFailed(err)
		}
		return nil
	}
}
