package parallel

import (
	"errors"
	"fmt"

	"trireme/internal/disk"
	"trireme/nn"
	"trireme/optim"
	"trireme/tensor"
)

// What may lie in a file of each element that is updated.
const (
	atMaster = iota
	atM
	atV
	atParam // where masters are apart
	states
)

// quantum is what sub-groups are multiples of, so that they share no block of a file in 2 bytes an
// element either.
const quantum = disk.Block / 2

// files are where this rank's state rests, where that is not memory.
type files struct {
	Offload
	open              func(dir string) (*disk.File, error)
	optimizer, params *disk.File
	hollow            bool
	state, kept       int // elements so far: of optimizer state off-loaded, of parameters kept
	total             int // elements of optimizer state
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

// group is elements of a flat that are updated at once.
type group struct {
	f *flat
	span
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
	var place tensor.Far
	if !e.files.hollow {
		if *at == nil {
			f, err := e.files.open(dir)
			if err != nil {
				return nil, fmt.Errorf("parallel: offload: %w. try: another path", err)
			}
			*at = f
		}
		s, err := (*at).Reserve(int64(n * dt.Size()))
		if err != nil {
			return nil, fmt.Errorf("parallel: offload: rank %d: %w. try: a path with more space", e.g.World.Rank(), err)
		}
		place = s
	}
	return tensor.Of(tensor.NewFar(e.b.Meter(), place, n*dt.Size()), dt, 0, n), nil
}

// rest takes memory, or space in files, for the state of f. In files all is zero at first.
func (e *Engine) rest(f *flat) (err error) {
	o, l := &e.files, &f.layout
	state := o.Optimizer.Device == OffloadNVMe && float64(o.state) < o.Optimizer.Ratio*float64(o.total)
	// Parameters that a rank keeps beside those that it updates stay in memory, and so do those of
	// Persist.
	params := o.Params.Device == OffloadNVMe && l.param == l.optim && !f.whole && o.kept+l.param.n() > o.Params.MaxInCPU
	if state {
		o.state += l.optim.n()
	}
	if !params {
		o.kept += l.param.n()
	}
	optimizer := func(far bool, cat tensor.Category, n int) *tensor.Tensor {
		if !far {
			return e.b.New(cat, tensor.F32, n)
		}
		t, failed := e.far(&o.optimizer, o.Optimizer.Path, tensor.F32, n)
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
	if f.master = f.param; e.precision.Param == tensor.F32 {
		l.master = l.param
	} else {
		f.master = optimizer(state, tensor.Master, l.master.n())
	}
	for _, gap := range l.holes(l.master) {
		if err == nil && !isFar(f.master) {
			e.b.Fill(f.at(f.master, l.master, gap), 0)
		}
	}
	if f.frozen || err != nil {
		return err
	}
	f.grad = e.b.New(tensor.Grads, tensor.F32, l.grad.n())
	f.m, f.v = optimizer(state, tensor.Optimizer, l.optim.n()), optimizer(state, tensor.Optimizer, l.optim.n())
	if err == nil && !state {
		e.b.Fill(f.m, 0)
		e.b.Fill(f.v, 0)
	}
	return err
}

// streams says whether some of f's state lies in a file.
func (f *flat) streams() bool { return isFar(f.param) || isFar(f.master) || isFar(f.m) }

// groups cuts what this rank updates of f.
func (e *Engine) groupsOf(f *flat) (out []group) {
	most := e.files.Optimizer.SubGroupSize
	if most == 0 {
		most = f.padded
	}
	most = (most + quantum - 1) / quantum * quantum
	for lo := f.optim.lo; lo < f.optim.hi; lo += most {
		out = append(out, group{f, span{lo, min(lo+most, f.optim.hi)}})
	}
	return out
}

// Update has step update all that this rank updates: what rests in memory at once, and what rests
// in files by sub-groups, each of which comes to memory and goes back.
func (e *Engine) Update(step func([]optim.Slice)) {
	var groups []group
	if e.resident == nil {
		e.resident = []optim.Slice{}
		for _, f := range e.flats {
			if !f.frozen && !f.streams() {
				e.resident = append(e.resident, f.slices(f.optim, nil)...)
			}
		}
	}
	if len(e.resident) > 0 {
		step(e.resident)
	}
	for _, f := range e.flats {
		if !f.frozen && f.streams() {
			groups = append(groups, e.groupsOf(f)...)
		}
	}
	e.stream(groups, []int{atMaster, atM, atV}, []int{atMaster, atM, atV, atParam}, func(g group, s *slot) {
		step(g.f.slices(g.span, s))
		e.narrow(g, s)
	})
}

// remake makes the parameters that compute of f from masters, where one of the two lies in a file.
func (e *Engine) remake(f *flat) {
	e.stream(e.groupsOf(f), []int{atMaster}, []int{atParam}, e.narrow)
}

// narrow makes the parameters that compute of a sub-group from its masters.
func (e *Engine) narrow(g group, s *slot) {
	if f := g.f; f.master != f.param {
		e.b.Copy(s.part(atParam, f.param, f.layout.param, g.span), s.part(atMaster, f.master, f.layout.master, g.span))
	}
}

// slices are what the optimizer updates of elements at of f, of which s has what lies in files.
func (f *flat) slices(at span, s *slot) (out []optim.Slice) {
	f.each(at, func(p *nn.Param, _, lo, n int) {
		part := span{lo, lo + n}
		out = append(out, optim.Slice{
			P: s.part(atMaster, f.master, f.layout.master, part), G: f.at(f.grad, f.layout.grad, part),
			M: s.part(atM, f.m, f.optim, part), V: s.part(atV, f.v, f.optim, part), Decay: p.Decays(),
		})
	})
	return out
}

// Fill has write give values to a part of a parameter that HeldParams lists: element at of the part
// is the first of dst. Where the part lies in memory that is done once, otherwise piece by piece.
func (e *Engine) Fill(s tensor.Shard, write func(dst *tensor.Tensor, at int) error) error {
	if !isFar(s.Data) {
		return write(s.Data, 0)
	}
	const most = 1 << 20
	buf := e.b.New(tensor.Workspace, s.DType, min(most, s.Count))
	defer buf.Release()
	for at := 0; at < s.Count; at += most {
		n := min(most, s.Count-at)
		piece := buf.Flat(0, n)
		if err := write(piece, at); err != nil {
			return err
		}
		if e.files.hollow {
			continue
		}
		e.b.Sync()
		if err := tensor.Store(s.Data.Flat(at, at+n), tensor.HostBytes(piece)); err != nil {
			return fmt.Errorf("parallel: offload: rank %d, %s: %w", e.g.World.Rank(), s.Name, err)
		}
	}
	return nil
}
