package parallel

import (
	"context"
	"fmt"

	"trireme/fault"
	"trireme/internal/disk"
	"trireme/tensor"
	"trireme/trace"
)

// stagingBuffer is memory for the offloaded tensors of one piece.
type stagingBuffer struct {
	p    *piece
	bufs []*tensor.Tensor // in order of flat.tensors; nil for those in memory
	busy []*disk.Transfer
}

// local returns elements at of f.tensors[i], in the staging buffer if that is offloaded.
func (f *flat) local(i int, at span, s *stagingBuffer) *tensor.Tensor {
	h := &f.tensors[i]
	if isOffloaded(h.Tensor) {
		return s.bufs[i].Flat(h.elems(at.lo-s.p.lo), h.elems(at.hi-s.p.lo))
	}
	if at == f.optim {
		return f.at(h.Tensor, h.span, at)
	}
	return h.Flat(h.elems(at.lo-h.lo), h.elems(at.hi-h.lo))
}

// stream calls do for each piece in order, after reading the tensors reads (indices into flat.tensors) of
// the piece; afterwards it writes the tensors writes. The next piece is read and the previous one
// written meanwhile.
func (e *Engine) stream(pieces []piece, reads, writes span, do func(*piece, *stagingBuffer)) {
	if len(pieces) == 0 {
		return
	}
	stages := e.stages(pieces, min(3, len(pieces))) // one read, one updated, one written
	next := 0
	for i := range pieces {
		for ; next < len(pieces) && next <= i+min(1, len(stages)-1); next++ {
			s := &stages[next%len(stages)]
			e.waitTransfers(s) // its last write
			s.p = &pieces[next]
			e.transfer(s, reads, (*disk.Section).StartRead)
		}
		p, s := &pieces[i], &stages[i%len(stages)]
		e.step.unit = p.f.unit
		e.waitTransfers(s)
		do(p, s)
		e.b.Sync()
		e.transfer(s, writes, (*disk.Section).StartWrite)
	}
	for i := range stages {
		e.waitTransfers(&stages[i])
		for _, b := range stages[i].bufs {
			if b != nil {
				b.Release()
			}
		}
	}
	e.step.unit = nil
}

// stages allocates n staging buffers. All pieces have the same kinds of tensors.
func (e *Engine) stages(pieces []piece, n int) []stagingBuffer {
	most := make([]int, len(pieces[0].f.tensors))
	for _, p := range pieces {
		for i, h := range p.f.tensors {
			if isOffloaded(h.Tensor) {
				most[i] = max(most[i], h.elems(p.len()))
			}
		}
	}
	stages := make([]stagingBuffer, n)
	for i := range stages {
		stages[i].bufs = make([]*tensor.Tensor, len(most))
		for k, elems := range most {
			if elems > 0 {
				h := pieces[0].f.tensors[k]
				stages[i].bufs[k] = e.b.New(h.cat, h.DType(), elems)
			}
		}
	}
	return stages
}

// transfer starts to read or write the tensors which (indices into flat.tensors) of a stage's piece.
func (e *Engine) transfer(s *stagingBuffer, which span, start func(*disk.Section, []byte, int64) *disk.Transfer) {
	if e.files.meta {
		return
	}
	for i := which.lo; i < which.hi; i++ {
		if h := &s.p.f.tensors[i]; isOffloaded(h.Tensor) {
			at := int64(h.elems(s.p.lo-h.lo)) * int64(h.DType().Size())
			s.busy = append(s.busy, start(h.Buffer().Backing.(*disk.Section), tensor.HostBytes(s.bufs[i].Flat(0, h.elems(s.p.len()))), at))
		}
	}
}

func (e *Engine) waitTransfers(s *stagingBuffer) {
	var failed error
	if len(s.busy) > 0 {
		waits := e.trace.Begin(trace.Span{Kind: trace.Offload, Unit: s.p.f.unit.Name})
		for _, t := range s.busy {
			if err := t.Wait(); failed == nil {
				failed = err
			}
			e.addTransfer(t, s.p.f)
		}
		e.trace.End(waits)
	}
	s.busy = s.busy[:0]
	if failed != nil {
		panic(failure{fmt.Errorf("unit %s: %w", s.p.f.unit.Name, offloadFailed(failed))})
	}
}

// addTransfer records the span of a transfer that has ended.
func (e *Engine) addTransfer(t *disk.Transfer, f *flat) {
	span, now := t.Span(), e.trace.Begin(trace.Span{})
	span.Unit, span.Step, span.Micro = f.unit.Name, now.Step, now.Micro
	e.trace.Add(span)
}

func offloadFailed(err error) error {
	return fault.Try(fmt.Errorf("offload: %w", err), "another path, with space for it, or device: none")
}

// fetch starts to read f's offloaded parameters into dst, and returns the op that waits for them. It
// needs no context: a disk read ends.
func (e *Engine) fetch(f *flat, dst *tensor.Tensor) op {
	o := op{kind: trace.Offload, unit: f.unit.Name, run: func(context.Context) error { return nil }}
	if e.files.meta {
		return o
	}
	t := f.param.Buffer().Backing.(*disk.Section).StartRead(tensor.HostBytes(dst), 0)
	o.run = func(context.Context) error {
		if err := t.Wait(); err != nil {
			return offloadFailed(err)
		}
		e.addTransfer(t, f)
		return nil
	}
	return o
}
