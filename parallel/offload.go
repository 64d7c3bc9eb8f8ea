package parallel

import (
	"errors"
	"fmt"
	"slices"

	"trireme/fault"
	"trireme/internal/disk"
	"trireme/tensor"
)

// What may lie in a file of each element that is updated: indices of flat.held.
const (
	atParam  = iota // where masters are apart
	atMaster        //
	atState         // the first of the optimizer's slots
)

// held is a tensor of a flat that may lie in a file.
type held struct {
	*tensor.Tensor // nil for the parameters that compute where they are the masters
	span
	block int             // elements of the flat that share one of the tensor
	cat   tensor.Category // in memory
}

// elems is the number of the tensor's elements that n of the flat have.
func (h *held) elems(n int) int { return n / h.block }

// files are where this rank's state rests, where that is not memory.
type files struct {
	Offload
	open              func(dir string) (*disk.File, error)
	optimizer, params *disk.File
	hollow            bool
}

func (o *files) close() error {
	var errs []error
	for _, f := range []*disk.File{o.optimizer, o.params} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// isFar says that a tensor lies in a file, or would where anything were computed.
func isFar(t *tensor.Tensor) bool { return t != nil && t.Buffer().Cat == tensor.Offloaded }

// Offloaded tells what rests in files, a line each; nothing where nothing does.
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

// far makes a tensor in a file that is made the first time.
func (e *Engine) far(at **disk.File, dir string, dt tensor.DType, n int) (*tensor.Tensor, error) {
	var place tensor.BackingStore
	if !e.files.hollow {
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
		place = s
	}
	return tensor.Of(tensor.NewOffloaded(e.b.Meter(), place, n*dt.Size()), dt, 0, n), nil
}

// rest takes memory, or space in files, for the state of f. In files all is zero at first.
func (e *Engine) rest(f *flat) (err error) {
	o, l := &e.files, &f.layout
	state := o.Optimizer.Device == OffloadNVMe
	// Parameters that a rank keeps beside those that it updates stay in memory.
	params := o.Params.Device == OffloadNVMe
	optimizer := func(cat tensor.Category, dt tensor.DType, n int) *tensor.Tensor {
		if !state {
			return e.b.New(cat, dt, n)
		}
		t, failed := e.far(&o.optimizer, o.Optimizer.Path, dt, n)
		if err == nil {
			err = failed
		}
		return t
	}
	if params {
		if f.param, err = e.far(&o.params, o.Params.Path, e.precision.Param, l.param.n()); err != nil {
			return err
		}
	} else {
		f.param = e.b.New(tensor.Params, e.precision.Param, l.param.n())
	}
	compute, master := held{nil, l.param, 1, tensor.Params}, held{f.param, l.param, 1, tensor.Params}
	if e.precision.Param == tensor.F32 {
		l.master = l.param
	} else {
		compute.Tensor = f.param
		master = held{optimizer(tensor.Master, tensor.F32, l.master.n()), l.master, 1, tensor.Master}
	}
	f.master, f.held = master.Tensor, []held{compute, master}
	for _, gap := range l.holes(l.master) {
		if err == nil && !isFar(f.master) {
			e.b.Fill(f.master.Flat(gap.lo-l.master.lo, gap.hi-l.master.lo), 0)
		}
	}
	if f.frozen || err != nil {
		return err
	}
	f.grad = e.b.New(tensor.Grads, tensor.F32, l.grad.n())
	for _, s := range elements(f.optimizer) {
		t := optimizer(tensor.Optimizer, s.DType, l.optim.n()/s.Block)
		if err == nil && !state {
			e.b.Fill(t, 0)
		}
		f.held = append(f.held, held{t, l.optim, s.Block, tensor.Optimizer})
	}
	return err
}

// streams says whether some of f's state lies in a file.
func (f *flat) streams() bool {
	return slices.ContainsFunc(f.held, func(h held) bool { return isFar(h.Tensor) })
}

// quantum is what sub-groups of f are multiples of, so that two share no block of a file.
func (f *flat) quantum() int {
	q := disk.Block / 2 // parameters that compute may have 2 bytes an element
	for _, h := range f.held[atState:] {
		q = max(q, disk.Block/h.DType().Size()*h.block)
	}
	return q
}

// Fill has write give values to a part of a parameter that HeldParams lists, by runs of the whole
// parameter's elements: first, first+1, ... Those of a part that lies in a file are short.
func (e *Engine) Fill(s tensor.Shard, write func(dst *tensor.Tensor, first int) error) error {
	if !isFar(s.Data) {
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
		if e.files.hollow {
			continue
		}
		e.b.Sync()
		if err := tensor.Store(s.Data.Flat(at, at+n), tensor.HostBytes(buf.Flat(0, n))); err != nil {
			return fmt.Errorf("parallel: offload: rank %d, %s: %w", e.mesh.World.Rank(), s.Name, err)
		}
	}
	return nil
}
