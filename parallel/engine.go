package parallel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"trireme/fault"
	"trireme/internal/disk"
	"trireme/nn"
	"trireme/optim"
	"trireme/tensor"
)

// Options say how New divides a model.
type Options struct {
	Strategy Strategy
	// WorldInvariant reduces over all ranks in order each micro-batch, whatever the strategy.
	WorldInvariant bool
	Precision      Precision
	// Optim says how each parameter is trained that is not frozen.
	Optim optim.Grouping
	// Placements says which dimensions of parameters the axes of the mesh divide.
	Placements Placements
	AllGather  AllGather
	// Offload says what rests in files, in directories that it names.
	Offload Offload
	// Files makes such a file in a directory; nil is disk.Create.
	Files func(dir string) (*disk.File, error)
}

// Engine holds this rank's part of the training state and moves what a step needs. It is used
// by one goroutine.
type Engine struct {
	b         tensor.Backend
	mesh      *Mesh
	strategy  Strategy
	chunks    []int // Mesh.chunks
	inOrder   bool  // Options.WorldInvariant
	precision Precision
	how       AllGather
	files     files
	settings  []optim.ParamOptions // of all parameters that train; those of one optimizer together
	updates   []update             // by optimizer
	joints    []*joint
	copied    bool // parameters that compute have been made from masters

	units    []*nn.Unit
	index    map[*nn.Unit]int
	needs    [][]*flat // of each unit: its own flats and those that its shared parameters lie in
	flats    []*flat
	schedule schedule // of the pass under way

	comm    *commStream
	ctx     context.Context
	step    stepState
	pending []reduction    // oldest first
	stats   *tensor.Tensor // I64: what ranks add up once a step
	sums    *tensor.Tensor // F64 [more+scores]: of all ranks; nil where there are none
	more    int            // sums of every pass besides the loss
	scores  int            // sums of passes that do not train
	scalars *tensor.Tensor
	maxNorm *tensor.Tensor
}

// stepState is what changes within a step.
type stepState struct {
	micro, accumulation int
	training            bool
	unit                *nn.Unit
	position            int // in the schedule, of the unit that began last; -1 for none
	until               int // the position up to which gathers have begun
	votes               [numVotes]int64
	read                [2]int64 // tokens of this rank, and FLOPs
	waited              time.Duration
}

// flat is the parameters of a unit in one tensor: those of each optimizer, and those that are
// frozen, apart from the others.
type flat struct {
	layout
	unit   *nn.Unit
	index  int // among the engine's
	frozen bool

	// These but grad may lie in a file (offload.go).
	param  *tensor.Tensor // Precision.Param, at rest: elements layout.param
	master *tensor.Tensor // F32, layout.master; param itself where that is F32
	grad   *tensor.Tensor // F32, layout.grad
	held   []held         // parameters and the optimizer's slots, wherever they lie (offload.go)

	optimizer optim.Optimizer // nil where frozen
	settings  span            // the engine's of this optimizer: the groups of an update
	pieces    []piece         // what this rank updates, in parts that are in memory at once

	states
	kept    *tensor.Tensor     // this rank's part of the copy of Mesh.Reshard, until it is needed no more
	written map[*nn.Param]bool // whose gradients are in the bucket
}

// New divides units among the ranks of a mesh. Memory is taken at once, and so is space in files.
// Optimizer state begins at 0. Parameters are undefined until Init, or until what HeldParams or
// State list is loaded, and then Refresh.
func New(b tensor.Backend, m *Mesh, units []*nn.Unit, o Options) (*Engine, error) {
	if err := o.Offload.CheckStrategy(o.Strategy); err != nil {
		return nil, err
	}
	if tensor.Static(b) && (o.Offload.Optimizer.Device == OffloadNVMe || o.Offload.Params.Device == OffloadNVMe) {
		return nil, fault.Try(fmt.Errorf("parallel: offload: state moves to and from files in the middle of a step, and %s compiles a step as a whole", b.Name()), "%s and %s", fault.Set("offload.optimizer.device", string(OffloadNone)), fault.Set("offload.params.device", string(OffloadNone)))
	}
	o.Precision.check()
	e := &Engine{
		b: b, mesh: m, strategy: o.Strategy, units: units, inOrder: o.WorldInvariant, precision: o.Precision, how: o.AllGather,
		index: map[*nn.Unit]int{},
		files: files{Offload: o.Offload, open: o.Files, hollow: tensor.IsMeta(b)},
	}
	if m.Reshard != nil && m.Reshard.Size() == m.Size(Shard) {
		e.how.Keep = false // what it would keep is at rest in any case
	}
	if e.files.open == nil {
		e.files.open = disk.Create
	}
	e.chunks = m.chunks()
	if err := m.place(units, o); err != nil {
		return nil, err
	}
	e.settings = settings(o.Optim, units)
	owner := map[*nn.Param]*flat{}
	add := func(f *flat) {
		if f == nil {
			return
		}
		f.index = len(e.flats)
		e.flats = append(e.flats, f)
		for _, p := range f.params {
			owner[p] = f
		}
	}
	optimizers := []optim.Optimizer{}
	for _, s := range e.settings {
		if !slices.Contains(optimizers, s.Optimizer) {
			optimizers = append(optimizers, s.Optimizer)
		}
	}
	for _, by := range append(optimizers, nil) { // nil: frozen
		for _, u := range units {
			add(e.newFlat(u, by, o.Optim))
		}
	}
	for i, u := range units {
		e.index[u] = i
		u.Observer = e
		e.needs = append(e.needs, needs(u, owner))
	}
	for _, f := range e.flats {
		if err := e.rest(f); err != nil {
			return nil, errors.Join(err, e.files.close())
		}
		e.cut(f)
		if f.layout.param.n() == f.padded && !isFar(f.param) {
			f.hold(f.param)
			f.bind(f.param)
		}
	}
	e.comm = newCommStream(m.World.Inline())
	e.schedule.uses = make([][]int, len(e.flats))
	e.plan(false)
	e.freeAll()
	e.stats = b.New(tensor.Workspace, tensor.I64, statWords)
	e.scalars = b.New(tensor.Workspace, tensor.F64, tensor.ScalarCount)
	e.maxNorm = b.New(tensor.Workspace, tensor.F64, 1)
	return e, nil
}

// needs lists each flat that u reads once, owner's before sharer's.
func needs(u *nn.Unit, owner map[*nn.Param]*flat) []*flat {
	var fs []*flat
	seen := map[*flat]bool{}
	for _, p := range append(append([]*nn.Param{}, u.Params...), u.Shared...) {
		f := owner[p]
		if f == nil {
			panic(fmt.Sprintf("parallel: unit %s shares %s, which no earlier unit owns", u.Name, p.Name))
		}
		if !seen[f] {
			seen[f] = true
			fs = append(fs, f)
		}
	}
	return fs
}

// newFlat is what an optimizer trains of a unit, or, with nil, what is frozen; nil for nothing.
func (e *Engine) newFlat(u *nn.Unit, by optim.Optimizer, how optim.Grouping) *flat {
	var ps []grouped
	for _, p := range u.Params {
		q := grouped{Param: p}
		switch {
		case p.Frozen && by == nil:
		case p.Frozen || by == nil:
			continue
		default:
			s := setting(how, p)
			if s.Optimizer != by {
				continue
			}
			q.group = slices.Index(e.settings, s)
		}
		ps = append(ps, q)
	}
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b grouped) int { return a.group - b.group })
	f := &flat{
		layout: newLayout(ps, e.strategy, e.mesh, by == nil, block(by)), unit: u, frozen: by == nil,
		written: map[*nn.Param]bool{}, optimizer: by,
	}
	if f.frozen {
		return f
	}
	f.settings = rowsOf(e.settings, by)
	for i, p := range f.params {
		p.SetGradDst(func() (*tensor.Tensor, bool) { return e.sink(f, p, f.starts[i]) })
	}
	return f
}

// bind makes the flat's parameters views of whole, or of nothing.
func (f *flat) bind(whole *tensor.Tensor) {
	for i, p := range f.params {
		if whole == nil {
			p.Value = nil
			continue
		}
		p.Value = whole.Flat(f.starts[i], f.starts[i]+p.Local.Elems()).Reshape(p.Local.Sizes...)
	}
}

// failure carries an error of communication through the model's code, which returns none.
type failure struct{ err error }

// Guard runs a part of a step. What the Engine cannot return from inside a model, and what
// panics there, is returned as an error that names the unit.
func (e *Engine) Guard(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.err
		case error:
			err = &Panic{Unit: e.unitName(), Value: p}
		default:
			err = &Panic{Unit: e.unitName(), Value: fmt.Errorf("%v", p)}
		}
	}()
	f()
	return nil
}

// Panic is a broken contract inside a step: a mistake of the program, not of its input.
type Panic struct {
	Unit  string
	Value error
}

func (p *Panic) Error() string { return fmt.Sprintf("parallel: in unit %s: %v", p.Unit, p.Value) }

// Unwrap is what was thrown.
func (p *Panic) Unwrap() error { return p.Value }

func (e *Engine) unitName() string {
	if e.step.unit == nil {
		return "none"
	}
	return e.step.unit.Name
}

func (e *Engine) issue(ops ...op) *ticket { return e.comm.issue(e.ctx, ops...) }

func (e *Engine) wait(w *ticket) {
	if w == nil {
		return
	}
	began := time.Now()
	err := w.wait()
	e.step.waited += time.Since(began)
	if err != nil {
		panic(failure{fmt.Errorf("unit %s: %w", e.unitName(), err)})
	}
}

// Waited is for how long the last step stood still for communication.
func (e *Engine) Waited() time.Duration { return e.step.waited }

// Sync waits for whatever is still under way, so that the parameters at rest may be read.
func (e *Engine) Sync() error {
	return e.Guard(func() {
		for _, f := range e.flats {
			if f.values == updating {
				e.arrive(f)
			}
		}
		e.drain(0)
	})
}

// Close waits for what is queued, ends the communication goroutine and gives files back. Nothing
// hangs here once the groups are aborted.
func (e *Engine) Close() error {
	e.comm.close()
	return e.files.close()
}
