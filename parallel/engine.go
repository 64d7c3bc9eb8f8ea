package parallel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"trireme/flight"
	"trireme/internal/disk"
	"trireme/nn"
	"trireme/optim"
	"trireme/tensor"
	"trireme/trace"
)

// Options configure New.
type Options struct {
	Strategy Strategy
	// WorldInvariant reduces every micro-batch over all ranks in order, whatever the strategy.
	WorldInvariant bool
	Precision      Precision
	// NoMasters keeps parameters in Precision.Param only, for inference: all must be frozen. Shards of HeldParams and
	// State have that type then.
	NoMasters bool
	// Optim gives the optimizer and group of each parameter that is not frozen.
	Optim optim.Grouping
	// Placements gives the dimension of a parameter that a mesh axis shards, by parameter name.
	Placements Placements
	AllGather  AllGather
	// Hold allocates gradients and compute parameters once. Otherwise a step allocates the gradients of a unit in
	// its backward, when activations are freed, and the next step frees them; and it casts the compute parameters
	// of a unit from masters in its forward, and frees them after its backward. Several ranks imply it, because
	// peers read this memory, which is apart from activations; so do backends that compile programs. Plans of
	// such devices set it.
	Hold bool
	// Offload says which state is kept in files, and in which directories.
	Offload Offload
	create  func(dir string) (*disk.File, error) // creates an offload file; nil is disk.Create
}

// Engine holds this rank's shard of the training state and runs the communication of a step. Use it
// from one goroutine.
type Engine struct {
	b          tensor.Backend
	mesh       *Mesh
	strategy   Strategy
	chunks     []int // Mesh.chunks
	inOrder    bool  // Options.WorldInvariant
	hold       bool  // gradients and compute parameters are allocated once
	precision  Precision
	masters    bool // parameters have F32 masters
	allGather  AllGather
	files      offloadFiles
	settings   []optim.ParamOptions // of all trained parameters, grouped by optimizer
	updates    []update             // per optimizer
	tensorwise []*tensorwise
	refreshed  bool // Refresh has cast masters to compute parameters

	units    []*nn.Unit
	index    map[*nn.Unit]int
	needs    [][]*flat // per unit: its own flats and those of its shared parameters
	flats    []*flat
	schedule schedule // of the current pass

	recorder  *flight.Recorder
	trace     *trace.Recorder
	static    bool // the backend compiles: units are recorded when they run
	period    period
	comm      *commStream
	ctx       context.Context
	step      stepState
	pending   []reduction    // oldest first
	stats     *tensor.Tensor // I64 [statWords ...]: all-reduced once a step
	sums      *tensor.Tensor // F64 [trainSums+evalSums]: totals over all ranks; nil if there are none
	trainSums int            // sums of every pass, besides the loss
	evalSums  int            // further sums of evaluation passes
	scalars   *tensor.Tensor
	maxNorm   *tensor.Tensor
}

type stepState struct {
	micro, accumulation int
	training            bool
	zeroed              bool // gradients start as 0 and all micro-batches add to them, so that they are one program
	unit                *nn.Unit
	position            int // in the schedule, of the unit that started last; -1 for none
	until               int // all-gathers have started up to this position
	votes               [numVotes]int64
	read                [2]int64 // this rank's tokens and FLOPs
	waited              time.Duration
	span                trace.Mark // of the unit that runs
}

// flat is a flat parameter: the parameters of a unit that share an optimizer, or the frozen ones, in
// one tensor.
type flat struct {
	layout
	unit   *nn.Unit
	index  int // among the engine's
	frozen bool

	// All but grad may be offloaded (offload.go).
	param   *tensor.Tensor // Precision.Param: the range layout.param, sharded or whole; nil if casts
	master  *tensor.Tensor // F32: the range layout.master; param itself if that is F32
	grad    *tensor.Tensor // F32: the range layout.grad; nil before the step's backward, unless Engine.hold
	tensors []stateTensor  // parameters and optimizer slots, in memory or offloaded (offload.go)

	optimizer optim.Optimizer // nil if frozen
	settings  span            // this optimizer's range of Engine.settings: the groups of an update
	pieces    []piece         // the range that this rank updates, split into the parts updated at once

	states
	secondary *tensor.Tensor     // this rank's shard of the secondary copy that Mesh.Reshard keeps until backward; or nil
	written   map[*nn.Param]bool // parameters whose gradients are in the bucket
}

// New shards units over the ranks of a mesh. It allocates all memory and file space. Optimizer state
// is 0. Parameters are undefined until Init, or a load of what HeldParams or State lists, followed by
// Refresh.
func New(b tensor.Backend, m *Mesh, units []*nn.Unit, o Options) (*Engine, error) {
	if err := o.Offload.CheckStrategy(o.Strategy); err != nil {
		return nil, err
	}
	if err := o.Offload.CheckBackend(b); err != nil {
		return nil, err
	}
	o.Precision.check()
	e := &Engine{
		b: b, mesh: m, strategy: o.Strategy, units: units, inOrder: o.WorldInvariant, hold: o.Hold || tensor.Static(b) || m.World.Size() > 1, precision: o.Precision, masters: o.Precision.Param != tensor.F32 && !o.NoMasters, allGather: o.AllGather,
		index: map[*nn.Unit]int{}, static: tensor.Static(b),
		files: offloadFiles{Offload: o.Offload, open: o.create, meta: tensor.IsMeta(b)},
	}
	if m.Reshard != nil && m.Reshard.Size() == m.Size(Shard) {
		e.allGather.Keep = false // each rank keeps its shard in any case
	}
	if e.files.open == nil {
		e.files.open = disk.Create
	}
	e.chunks = m.chunks()
	if err := m.setLocal(units, o); err != nil {
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
	for _, s := range stacks(e.flats) {
		if err := e.allocate(s); err != nil {
			return nil, errors.Join(err, e.files.close())
		}
		e.split(s)
	}
	for _, f := range e.flats {
		if !f.reshards() {
			f.hold(f.param)
			f.bind(f.param)
		}
	}
	e.comm = newCommStream(m.World.Inline())
	e.schedule.uses = make([][]int, len(e.flats))
	e.plan(false)
	e.freeAll()
	e.stats = b.New(tensor.Workspace, tensor.I64, e.statWords())
	e.scalars = b.New(tensor.Workspace, tensor.F64, tensor.ScalarCount)
	e.maxNorm = b.New(tensor.Workspace, tensor.F64, 1)
	return e, nil
}

// needs returns the flats that u reads, without duplicates, its own before shared ones.
func needs(u *nn.Unit, owner map[*nn.Param]*flat) []*flat {
	var fs []*flat
	seen := map[*flat]bool{}
	for _, p := range append(append([]*nn.Param{}, u.Params...), u.Shared...) {
		f := owner[p]
		if p.Quantized {
			continue
		}
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

// newFlat returns the flat of u's parameters that optimizer by trains, or of the frozen ones if by is
// nil. It returns nil if there are none.
func (e *Engine) newFlat(u *nn.Unit, by optim.Optimizer, how optim.Grouping) *flat {
	var ps []grouped
	for _, p := range u.Params {
		q := grouped{Param: p}
		switch {
		case p.Quantized:
			continue
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
	if by != nil && e.precision.Param != tensor.F32 && !e.masters {
		panic(fmt.Sprintf("parallel: %s of unit %s is trained, but NoMasters is set", ps[0].Name, u.Name))
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
		p.SetGradDst(func() (*tensor.Tensor, bool) { return e.gradDst(f, p, f.starts[i]) })
	}
	return f
}

// bind points the flat's parameters into whole; nil unbinds them.
func (f *flat) bind(whole *tensor.Tensor) {
	for i, p := range f.params {
		if whole == nil {
			p.Value = nil
			continue
		}
		p.Value = whole.Flat(f.starts[i], f.starts[i]+p.Local.Elems()).Reshape(p.Local.Sizes...)
	}
}

// failure is the panic value that carries a communication error out of the model's code.
type failure struct{ err error }

// Guard runs part of a step. It returns communication errors that occur inside the model. A panic is
// returned as a *Panic that names the unit.
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

// Panic is a broken contract inside a step: a bug, not invalid input.
type Panic struct {
	Unit  string
	Value error
}

func (p *Panic) Error() string { return fmt.Sprintf("parallel: in unit %s: %v", p.Unit, p.Value) }

// Unwrap returns the panic's value.
func (p *Panic) Unwrap() error { return p.Value }

func (e *Engine) unitName() string {
	if e.step.unit == nil {
		return "none"
	}
	return e.step.unit.Name
}

// Groups returns the ranks of the groups of this rank, by name.
func (e *Engine) Groups() map[string][]int { return e.mesh.Groups() }

// SetRecorder sets the recorder of this rank's activity; nil records nothing.
func (e *Engine) SetRecorder(r *flight.Recorder) { e.recorder = r }

// SetTrace sets the recorder of this rank's spans; nil records none.
func (e *Engine) SetTrace(r *trace.Recorder) { e.trace = r }

// Recompute starts the span of a part of the current unit that is recomputed; end ends it. It is for
// autograd.Tape.OnRecompute.
func (e *Engine) Recompute() (end func()) {
	if e.trace == nil || e.static {
		return func() {}
	}
	span := e.trace.Begin(trace.Span{Kind: trace.Recompute, Unit: e.waitsIn()})
	return func() { e.trace.End(span) }
}

// waitsIn returns the name of the unit that computes, or "".
func (e *Engine) waitsIn() string {
	if e.step.unit == nil {
		return ""
	}
	return e.step.unit.Name
}

// issue queues operations. Inline ones run at once: computation waits for them.
func (e *Engine) issue(ops ...op) *ticket {
	if !e.comm.inline {
		return e.comm.issue(e.ctx, ops...)
	}
	defer e.beginWait(ops)()
	return e.comm.issue(e.ctx, ops...)
}

// beginWait starts a wait of the computation for operations; the function that it returns ends it.
func (e *Engine) beginWait(ops []op) (end func()) {
	began, span := time.Now(), trace.Mark{}
	if len(ops) > 0 {
		span = e.trace.Begin(trace.Span{Kind: trace.Wait, Unit: ops[0].unit, Axis: ops[0].axis, Op: ops[0].kind.String()})
	}
	return func() {
		waited := time.Since(began)
		e.step.waited += waited
		e.period.waited += waited
		if len(ops) > 0 {
			e.trace.End(span)
		}
	}
}

func (e *Engine) wait(w *ticket) {
	if w == nil {
		return
	}
	select {
	case <-w.done:
	default:
		defer e.recorder.Leave(e.recorder.Enter(flight.Waiting, e.waitsIn()))
		defer e.beginWait(w.ops)()
	}
	err := w.wait()
	switch {
	case err == nil:
	case e.step.unit == nil:
		panic(failure{err})
	default:
		panic(failure{fmt.Errorf("unit %s: %w", e.unitName(), err)})
	}
}

// Waited returns the exposed communication of the last step: the time that computation waited for it.
func (e *Engine) Waited() time.Duration { return e.step.waited }

// Sync waits for pending reductions and parameter updates, after which this rank's parameters may be read.
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

// Close waits for queued operations, ends the communication stream and closes offload files. It does
// not hang once the groups are aborted.
func (e *Engine) Close() error {
	e.comm.close()
	return e.files.close()
}
