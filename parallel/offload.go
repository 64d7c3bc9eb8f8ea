package parallel

import (
	"errors"
	"fmt"
	"slices"

	"trireme/fault"
	"trireme/internal/disk"
	"trireme/tensor"
)

// Indices into flat.tensors, the state that can be offloaded.
const (
	atParam  = iota // compute parameters, if masters are separate
	atMaster        //
	atState         // the first of the optimizer's slots
)

// stateTensor is a tensor of a flat that may be offloaded.
type stateTensor struct {
	*tensor.Tensor // nil for compute parameters that are the masters
	span
	block int             // elements of the flat per element of the tensor
	cat   tensor.Category // when in memory
}

// elems returns the number of the tensor's elements for n elements of the flat.
func (h *stateTensor) elems(n int) int { return n / h.block }

type offloadFiles struct {
	Offload
	open              func(dir string) (*disk.File, error)
	optimizer, params *disk.File
	meta              bool // no storage: only sizes are counted
}

func (o *offloadFiles) close() error {
	var errs []error
	for _, f := range []*disk.File{o.optimizer, o.params} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// isOffloaded reports whether a tensor is in a file, or would be if the backend had storage.
func isOffloaded(t *tensor.Tensor) bool { return t != nil && t.Buffer().Cat == tensor.Offloaded }

// Offloaded returns a line for each kind of offloaded state.
func (e *Engine) Offloaded() (lines []string) {
	for _, at := range []struct {
		what string
		f    *disk.File
	}{{"optimizer state", e.files.optimizer}, {"parameters", e.files.params}} {
		switch {
		case at.f == nil:
		case at.f.Direct():
			lines = append(lines, fmt.Sprintf("%s: offloaded to files in %s, with direct I/O", at.what, at.f.Dir()))
		default:
			lines = append(lines, fmt.Sprintf("%s: offloaded to files in %s, through the page cache, since this file system has no direct I/O", at.what, at.f.Dir()))
		}
	}
	return lines
}

// newOffloaded makes a tensor in a file, which it creates on first use.
func (e *Engine) newOffloaded(at **disk.File, dir string, dt tensor.DType, n int) (*tensor.Tensor, error) {
	var store tensor.BackingStore
	if !e.files.meta {
		if *at == nil {
			f, err := e.files.open(dir)
			if err != nil {
				return nil, fault.Try(fmt.Errorf("parallel: offload: %w", err), "another path")
			}
			*at = f
		}
		s, err := (*at).Reserve(int64(n * dt.Size()))
		if err != nil {
			return nil, fault.Try(fmt.Errorf("parallel: offload: rank %d: %w", e.mesh.World.Rank(), err), "a path with more space")
		}
		store = s
	}
	return tensor.Of(tensor.NewOffloaded(e.b.Meter(), store, n*dt.Size()), dt, 0, n), nil
}

// allocate allocates the state of a stack in memory or files. Files are zero.
func (e *Engine) allocate(s stack) error {
	o := &e.files
	offloaded := o.Optimizer.Device == OffloadNVMe
	l := s[0].layout
	compute, err := make([]*tensor.Tensor, len(s)), error(nil)
	if e.hold || offloaded || o.Params.Device == OffloadNVMe || !e.masters {
		if compute, err = e.newState(s, o.Params.Device == OffloadNVMe, &o.params, o.Params.Path, tensor.Params, e.precision.Param, l.param.len()); err != nil {
			return err
		}
	}
	master := compute
	if e.masters {
		if master, err = e.newState(s, offloaded, &o.optimizer, o.Optimizer.Path, tensor.Master, tensor.F32, l.master.len()); err != nil {
			return err
		}
	}
	for k, f := range s {
		f.param, f.master = compute[k], master[k]
		if f.param == f.master {
			f.layout.master = f.layout.param
			f.tensors = []stateTensor{{nil, l.param, 1, tensor.Params}, {f.param, l.param, 1, tensor.Params}}
		} else {
			f.tensors = []stateTensor{{f.param, l.param, 1, tensor.Params}, {f.master, l.master, 1, tensor.Master}}
		}
		for _, gap := range f.gapsIn(f.layout.master) {
			if !isOffloaded(f.master) {
				e.b.Fill(f.master.Flat(gap.lo-f.layout.master.lo, gap.hi-f.layout.master.lo), 0)
			}
		}
	}
	if s[0].frozen {
		return nil
	}
	if e.hold {
		for k, grad := range split(e.b.New(tensor.Grads, tensor.F32, len(s)*l.grad.len()), len(s)) {
			s[k].grad = grad
		}
	}
	for _, slot := range elements(s[0].optimizer) {
		ts, err := e.newState(s, offloaded, &o.optimizer, o.Optimizer.Path, tensor.Optimizer, slot.DType, l.optim.len()/slot.Block)
		if err != nil {
			return err
		}
		for k, t := range ts {
			if !offloaded {
				e.b.Fill(t, 0)
			}
			s[k].tensors = append(s[k].tensors, stateTensor{t, l.optim, slot.Block, tensor.Optimizer})
		}
	}
	return nil
}

func (f *flat) offloaded() bool {
	return slices.ContainsFunc(f.tensors, func(h stateTensor) bool { return isOffloaded(h.Tensor) })
}

// subGroupAlign returns the alignment of f's sub-groups, in elements, so that no two share a file block.
func (f *flat) subGroupAlign() int {
	q := disk.Block / 2 // compute parameters may have 2 bytes an element
	for _, h := range f.tensors[atState:] {
		q = max(q, disk.Block/h.DType().Size()*h.block)
	}
	return q
}

// Fill sets the elements of s, a shard that HeldParams lists. It calls write for each contiguous run of
// the parameter's elements; first is the index of dst's first element in the parameter. An offloaded
// shard goes through a buffer, in shorter runs, so dst is valid only during the call.
func (e *Engine) Fill(s tensor.Shard, write func(dst *tensor.Tensor, first int) error) error {
	if !isOffloaded(s.Data) {
		for run := range s.Runs() {
			if err := write(s.Data.Flat(run.X, run.X+run.N), run.Y); err != nil {
				return err
			}
		}
		return nil
	}
	const most = 1 << 20
	total := s.Box.Elems()
	buf := e.b.New(tensor.Workspace, s.DType, min(most, total))
	defer buf.Release()
	for at := 0; at < total; at += most {
		n := min(most, total-at)
		piece, lo := s, 0
		for _, piece.Box = range s.Box.Range(at, at+n) {
			piece.Data = buf.Flat(lo, lo+piece.Box.Elems())
			if err := e.Fill(piece, write); err != nil {
				return err
			}
			lo += piece.Box.Elems()
		}
		if e.files.meta {
			continue
		}
		e.b.Sync()
		if err := tensor.Store(s.Data.Flat(at, at+n), tensor.HostBytes(buf.Flat(0, n))); err != nil {
			return fmt.Errorf("parallel: offload: rank %d, %s: %w", e.mesh.World.Rank(), s.Name, err)
		}
	}
	return nil
}
