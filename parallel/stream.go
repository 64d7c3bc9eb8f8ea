package parallel

import (
	"context"
	"fmt"

	"trireme/internal/disk"
	"trireme/tensor"
)

// slot is memory for a sub-group: of what of it lies in files.
type slot struct {
	g    group
	bufs [states]*tensor.Tensor
	busy []*disk.Transfer
}

// state lists what a file may have of a flat, and the elements of each.
func (f *flat) state() (ts [states]*tensor.Tensor, held [states]span) {
	l := &f.layout
	ts, held = [states]*tensor.Tensor{f.master, f.m, f.v, f.param}, [states]span{l.master, l.optim, l.optim, l.param}
	if f.master == f.param {
		ts[atParam] = nil
	}
	return ts, held
}

// part is elements at of a state: in the slot where t lies in a file.
func (s *slot) part(state int, t *tensor.Tensor, held, at span) *tensor.Tensor {
	if isFar(t) {
		return s.bufs[state].Flat(at.lo-s.g.lo, at.hi-s.g.lo)
	}
	return t.Flat(at.lo-held.lo, at.hi-held.lo)
}

// stream has do work on sub-groups one after the other, each in a slot with the states that reads
// names and of which those that writes names go back. While one is worked on the next are read
// and the one before is written.
func (e *Engine) stream(groups []group, reads, writes []int, do func(g group, s *slot)) {
	if len(groups) == 0 {
		return
	}
	o := e.files.Optimizer
	ahead, behind := 0, 0
	if o.PipelineRead {
		ahead = o.BufferCount / states
	}
	if o.PipelineWrite {
		behind = 1
	}
	slots := e.slots(groups, min(1+ahead+behind, len(groups)))
	next := 0
	for i, g := range groups {
		for ; next < len(groups) && next <= i+min(ahead, len(slots)-1); next++ {
			s := &slots[next%len(slots)]
			e.settle(s) // what it held is written
			s.g = groups[next]
			e.transfer(s, reads, (*disk.Section).StartRead)
		}
		s := &slots[i%len(slots)]
		e.step.unit = g.f.unit
		e.settle(s)
		do(g, s)
		e.b.Sync()
		e.transfer(s, writes, (*disk.Section).StartWrite)
		if behind == 0 {
			e.settle(s)
		}
	}
	for i := range slots {
		e.settle(&slots[i])
		for _, b := range slots[i].bufs {
			if b != nil {
				b.Release()
			}
		}
	}
	e.step.unit = nil
}

// slots takes memory for n sub-groups.
func (e *Engine) slots(groups []group, n int) []slot {
	var most [states]int
	for _, g := range groups {
		ts, _ := g.f.state()
		for i, t := range ts {
			if isFar(t) {
				most[i] = max(most[i], g.n())
			}
		}
	}
	slots := make([]slot, n)
	for i := range slots {
		for state, elems := range most {
			if elems == 0 {
				continue
			}
			cat, dt := tensor.Optimizer, tensor.F32
			switch {
			case state == atParam:
				cat, dt = tensor.Params, e.precision.Param
			case state == atMaster && e.precision.Param == tensor.F32:
				cat = tensor.Params
			case state == atMaster:
				cat = tensor.Master
			}
			slots[i].bufs[state] = e.b.New(cat, dt, elems)
		}
	}
	return slots
}

// transfer begins to move states of a slot's sub-group.
func (e *Engine) transfer(s *slot, which []int, start func(*disk.Section, []byte, int64) *disk.Transfer) {
	if e.files.hollow {
		return
	}
	ts, held := s.g.f.state()
	for _, state := range which {
		if t := ts[state]; isFar(t) {
			at := int64(s.g.lo-held[state].lo) * int64(t.DType().Size())
			s.busy = append(s.busy, start(t.Buffer().Far.(*disk.Section), tensor.HostBytes(s.bufs[state].Flat(0, s.g.n())), at))
		}
	}
}

// settle waits for what moves in a slot.
func (e *Engine) settle(s *slot) {
	var failed error
	for _, t := range s.busy {
		if err := t.Wait(); failed == nil {
			failed = err
		}
	}
	s.busy = s.busy[:0]
	if failed != nil {
		panic(failure{fmt.Errorf("unit %s: %w", s.g.f.name, offloadFailed(failed))})
	}
}

func offloadFailed(err error) error {
	return fmt.Errorf("offload: %w. try: another path, with space for it, or device: none", err)
}

// fetch begins to read the parameters that lie in a file into dst. What it returns waits for them;
// the disk answers in any case.
func (e *Engine) fetch(f *flat, dst *tensor.Tensor) op {
	if e.files.hollow {
		return func(context.Context) error { return nil }
	}
	t := f.param.Buffer().Far.(*disk.Section).StartRead(tensor.HostBytes(dst), 0)
	return func(context.Context) error {
		if err := t.Wait(); err != nil {
			return offloadFailed(err)
		}
		return nil
	}
}
