package parallel_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"trireme/autograd"
	"trireme/checkpoint"
	"trireme/collective"
	"trireme/device"
	"trireme/internal/disk"
	"trireme/nn"
	"trireme/optim"
	"trireme/optim/optimtest"
	"trireme/parallel"
	"trireme/tensor"
	"trireme/trace"
)

// toy configures a small network: an embedding [V D], blocks of a norm, a gated up projection with
// biases and a down projection, and a norm with a head.
type toy struct {
	V, D, F   int
	layers    int
	tied      bool // the head is the embedding
	recompute bool
	segments  int // layers per recompute segment; 0 for none
	frozen    map[string]bool
	idle      int   // index of the layer with an unused parameter; 0 for none
	skip      int   // index of a skipped layer; 0 for none
	seed      int64 // of the data
	rows      int   // of a micro-batch
	precision parallel.Precision
	optim     optim.Grouping // the zero value is adam
}

func (c toy) how() optim.Grouping {
	if c.optim.Optimizer == nil {
		return adam
	}
	return c.optim
}

// kind is the properties shared by parameters of one buffer.
type kind struct {
	optim.ParamOptions
	frozen bool
	after  *nn.Param // the previous parameter, if there is a gap after it
}

func (c toy) kind(p *nn.Param) kind {
	if p.Frozen {
		return kind{frozen: true}
	}
	k := kind{ParamOptions: c.how().Of(optim.Param{Name: p.Name, Shape: p.Shape, Hidden: p.Hidden})}
	block := 1
	for _, s := range k.Optimizer.Slots() {
		block = max(block, s.Block)
	}
	if j, ok := optim.AsTensorwise(k.Optimizer); ok {
		if _, ok := j.(optim.NormScaled); ok {
			block = max(block, tensor.SumBlock)
		}
	}
	if p.FusedAfter != nil && p.FusedAfter.Shape.Elems()%block != 0 {
		k.after = p.FusedAfter
	}
	return k
}

var groupings = func() []optim.Grouping {
	none, some := 0.0, 0.3
	sgd := optim.SGD{Momentum: 0.9, Dampening: 0.2}
	adamw := adam.Optimizer.(optim.AdamW)
	muon := optim.Muon{Momentum: 0.9, Nesterov: true, Coefficients: [3]float64{3.4445, -4.775, 2.0315}, Eps: 1e-7, Steps: 2, Rest: adamw}
	adafactor := optim.Adafactor{Eps1: 1e-30, Eps2: 1e-3, ClipThreshold: 1, DecayRate: -0.8, ScaleParameter: true}
	mean := adafactor
	mean.Beta1, mean.ScaleParameter = 0.9, false
	lamb := optim.LAMB{Beta1: 0.9, Beta2: 0.95, Eps: 1e-6, Min: 0.01, Max: 10}
	return []optim.Grouping{
		adam,
		{Optimizer: optim.SGD{}},
		{Optimizer: muon, WeightDecay: 0.1, Groups: []optim.Group{{Match: "layer1.down.*", LRFactor: 2}}},
		{Optimizer: optim.Averaged{Optimizer: muon, EMA: optim.EMA{Decay: 0.9}}},
		{Optimizer: lamb, WeightDecay: 0.1, Groups: []optim.Group{{Match: "*.bias", LRFactor: 3}}},
		{Optimizer: adafactor, WeightDecay: 0.1, Groups: []optim.Group{{Match: "layer1.*", LRFactor: 1, Optimizer: lamb}}},
		{Optimizer: optim.Averaged{Optimizer: mean, EMA: optim.EMA{Decay: 0.9}}, Groups: []optim.Group{{Match: "*norm*", LRFactor: 0.5}}},
		{Optimizer: optim.LowBit{Elementwise: adamw, StateDType: tensor.BF16}, WeightDecay: 0.1},
		{Optimizer: optim.LowBit{Elementwise: adamw, StateDType: tensor.U8, MinSize: 20}, WeightDecay: 0.1},
		{Optimizer: sgd, WeightDecay: 0.1, Groups: []optim.Group{{Match: "*.bias", LRFactor: 3, WeightDecay: &some}}},
		{Optimizer: optim.Lion{Beta1: 0.9, Beta2: 0.99}, WeightDecay: 0.1, Groups: []optim.Group{
			{Match: "*.up.weight", LRFactor: 0.5, WeightDecay: &none}, {Match: "embed*", LRFactor: 0, Optimizer: adam.Optimizer}}},
		{Optimizer: adam.Optimizer, WeightDecay: 0.1, Groups: []optim.Group{
			{Match: "layer1.*", LRFactor: 1, Optimizer: optim.SGD{Momentum: 0.9, Nesterov: true}}, {Match: "*.norm.weight", LRFactor: 2, Optimizer: sgd}, {Match: "layer2.up.*", LRFactor: 2}}},
	}
}()

type network struct {
	toy
	b      device.Device
	units  []*nn.Unit
	embed  *nn.Embedding
	blocks []toyBlock
	norm   *nn.RMSNorm
	head   *nn.Param
	// in is called when a unit computes, in forward or backward; may be nil.
	in func(unit int, back bool)
}

type toyBlock struct {
	unit *nn.Unit
	norm *nn.RMSNorm
	up   *nn.Linear // [2F D]
	down *nn.Linear // [D F]
}

func (c toy) make(b device.Device) *network {
	n := &network{toy: c, b: b}
	std := nn.Init{Kind: nn.Normal, Std: 0.3}
	n.embed = nn.NewEmbedding("embed", c.V, c.D, std)
	n.units = append(n.units, &nn.Unit{Name: "embed", Params: []*nn.Param{n.embed.Weight}})
	for i := 1; i <= c.layers; i++ {
		name := fmt.Sprintf("layer%d.", i)
		l := toyBlock{
			norm: nn.NewRMSNorm(name+"norm", c.D, 1e-5),
			up:   nn.NewFusedLinear(nn.NewLinear(name+"gate", c.D, c.F, std).WithBias(), nn.NewLinear(name+"up", c.D, c.F, std).WithBias()),
			down: nn.NewLinear(name+"down", c.F, c.D, std),
		}
		l.unit = &nn.Unit{Name: fmt.Sprintf("layer%d", i), Params: []*nn.Param{l.norm.Weight}}
		l.unit.Params = append(append(l.unit.Params, l.up.Params()...), l.down.Params()...)
		if i == c.idle {
			l.unit.Params = append(l.unit.Params, nn.NewParam(name+"idle", std, 3, 67))
		}
		n.blocks, n.units = append(n.blocks, l), append(n.units, l.unit)
	}
	n.norm = nn.NewRMSNorm("last.norm", c.D, 1e-5)
	last := &nn.Unit{Name: "last", Params: []*nn.Param{n.norm.Weight}}
	if n.head = n.embed.Weight; c.tied {
		last.Shared = []*nn.Param{n.head}
	} else {
		n.head = nn.NewParam("head", std, c.V, c.D)
		last.Params = append(last.Params, n.head)
	}
	n.units = append(n.units, last)
	if c.recompute {
		nn.Recompute(n.units, func(int) nn.RecomputePolicy { return nn.RecomputePolicy{Part: nn.Layer} })
	}
	nn.Segments(n.units, c.segments)
	for _, p := range n.params() {
		p.Frozen = c.frozen[p.Name]
	}
	return n
}

func (n *network) params() (ps []*nn.Param) {
	for _, u := range n.units {
		ps = append(ps, u.Params...)
	}
	return ps
}

// observe calls in for unit i, in forward and backward.
func (n *network) observe(t *autograd.Tape, i int) {
	if n.in != nil {
		n.in(i, false)
		t.OnBackward(func() { n.in(i, true) })
	}
}

// loss runs the network on global micro-batch m of a step and adds its loss to loss; call release after
// backward.
func (n *network) loss(t *autograd.Tape, loss *tensor.Tensor, step, m int) (tokens int64, release func()) {
	rng := rand.New(rand.NewPCG(uint64(n.seed), uint64(step)<<32|uint64(m)))
	ids, targets := make([]int32, n.rows), make([]int32, n.rows)
	for i := range ids {
		ids[i], targets[i] = rng.Int32N(int32(n.V)), rng.Int32N(int32(n.V+1))-1
		if targets[i] >= 0 {
			tokens++
		}
	}
	put := func(v []int32) *tensor.Tensor {
		x := n.b.New(tensor.Workspace, tensor.I32, len(v))
		n.b.Upload(x, tensor.AsBytes(v))
		return x
	}
	id, target := put(ids), put(targets)
	t.Scope(func() *autograd.Var {
		x := n.units[0].Run(t, nil, func(t *autograd.Tape, _ *autograd.Var) *autograd.Var {
			n.observe(t, 0)
			return n.embed.Forward(t, id)
		})
		for i, l := range n.blocks {
			if i+1 == n.skip {
				continue
			}
			x = l.unit.Run(t, x, func(t *autograd.Tape, x *autograd.Var) *autograd.Var {
				n.observe(t, i+1)
				return t.Add(x, l.down.Forward(t, t.SwiGLU(l.up.Forward(t, l.norm.Forward(t, x)))))
			})
		}
		last := len(n.units) - 1
		return n.units[last].Run(t, x, func(t *autograd.Tape, x *autograd.Var) *autograd.Var {
			n.observe(t, last)
			t.LinearCrossEntropy(loss, n.norm.Forward(t, x), &n.head.Var, nil, autograd.Labels{Targets: target})
			return nil
		})
	})
	return tokens, func() { id.Release(); target.Release() }
}

// outcome is the bits of a run: each step's scalars, the final parameters and optimizer state.
type outcome struct {
	scalars [][]float64
	params  map[string][]float32
	state   map[string][]byte // optimizer state, by slot and name
}

var adam = optim.Grouping{Optimizer: optim.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8}, WeightDecay: 0.1}

const maxNorm = 0.05

func rate(update int) float64 { return 1e-2 / float64(1+update) }

func openDevice(t testing.TB) device.Device {
	t.Helper()
	b, err := device.Open("cpu", device.Options{Reserve: 1 << 32})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// plain trains without an Engine: one process, separate tensors, micro-batches summed in order. Step
// poison gets a NaN; negative for none.
func (c toy) plain(t testing.TB, steps, micros, poison int) *outcome {
	t.Helper()
	b := openDevice(t)
	defer b.Close()
	n := c.make(b)
	type state struct {
		p, sum, c, g *tensor.Tensor // c: compute copy
		state        []*tensor.Tensor
	}
	states := map[*nn.Param]*state{}
	written := map[*nn.Param]bool{}
	for _, u := range n.units {
		kinds := map[kind]bool{}
		for _, p := range u.Params {
			kinds[c.kind(p)] = true
		}
		for kind := range kinds {
			// A unit's parameters are adjacent, for weights that are multiplied as one.
			var ps []*nn.Param
			k := 0
			for _, p := range u.Params {
				if c.kind(p) == kind {
					ps = append(ps, p)
					k += p.Shape.Elems()
				}
			}
			whole := make([]*tensor.Tensor, 4)
			for i, dt := range []tensor.DType{tensor.F32, tensor.F32, c.precision.Param, c.precision.Reduce} {
				whole[i] = b.New(tensor.Params, dt, k)
				b.Fill(whole[i], 0)
			}
			k = 0
			for _, p := range ps {
				part := func(i int) *tensor.Tensor { return whole[i].Flat(k, k+p.Shape.Elems()) }
				s := &state{p: part(0), sum: part(1), c: part(2), g: part(3)}
				k += p.Shape.Elems()
				p.Fill(b, s.p, 7, 0)
				b.Copy(s.c, s.p)
				p.Value, states[p] = s.c.Reshape(p.Shape...), s
				if !p.Frozen {
					s.state = optimtest.State(b, kind.Optimizer, p.Shape)
					p.SetGradDst(func() (*tensor.Tensor, bool) {
						was := written[p]
						written[p] = true
						return s.g.Reshape(p.Shape...), was
					})
				}
			}
		}
	}
	loss := b.New(tensor.Workspace, tensor.F64, 1)
	squares, sum := b.New(tensor.Workspace, tensor.I64, tensor.ExactWords), b.New(tensor.Workspace, tensor.I64, tensor.ExactWords)
	count, limit := b.New(tensor.Workspace, tensor.I64, 1), b.New(tensor.Workspace, tensor.F64, 1)
	scalars := b.New(tensor.Workspace, tensor.F64, tensor.ScalarCount)
	b.Fill(limit, maxNorm)
	out := &outcome{params: map[string][]float32{}, state: map[string][]byte{}}
	updates := 0
	for step := range steps {
		b.Fill(squares, 0)
		b.Fill(sum, 0)
		tokens := int64(0)
		for m := range micros {
			clear(written)
			b.Fill(loss, 0)
			tape := autograd.NewTape(b, c.precision.Param, true)
			counted, release := n.loss(tape, loss, step, m)
			tokens += counted
			if step == poison && m == micros-1 {
				b.Fill(loss, nan())
			}
			b.ExactAdd(sum, loss)
			tape.Backward()
			release()
			for _, p := range n.params() {
				s := states[p]
				if !written[p] {
					b.Fill(s.g, 0)
				}
				if m == 0 {
					b.Copy(s.sum, s.g)
				} else {
					b.AddScaled(s.sum, s.g, 1)
				}
			}
		}
		for _, u := range n.units { // squares are summed in blocks of weights multiplied as one
			var all []float32
			var before *nn.Param
			for _, p := range u.Params {
				if !p.Frozen {
					for len(all)%tensor.SumBlock != 0 && (p.FusedAfter == nil || p.FusedAfter != before || c.kind(p) != c.kind(before)) {
						all = append(all, 0)
					}
					all, before = append(all, tensor.Host[float32](states[p].sum)...), p
				}
			}
			row := b.New(tensor.Workspace, tensor.F32, len(all))
			b.Upload(row, tensor.AsBytes(all))
			b.ExactSquares(squares, row, nil)
			row.Release()
		}
		b.Upload(count, tensor.AsBytes([]int64{tokens}))
		b.StepScalars(scalars, squares, sum, count, limit, nil)
		for _, p := range n.params() {
			if !p.Frozen {
				s := states[p]
				how := []optim.ParamOptions{c.kind(p).ParamOptions}
				hyper, ends := b.New(tensor.Workspace, tensor.F64, 1, len(how[0].Optimizer.Hyper(0, 0, 1))), b.New(tensor.Workspace, tensor.I64, 1)
				b.Upload(hyper, tensor.AsBytes(how[0].Optimizer.Hyper(rate(updates)*how[0].LRFactor, how[0].WeightDecay, updates+1)))
				b.Upload(ends, tensor.AsBytes([]int64{int64(s.p.Elems())}))
				optimtest.Step(b, how[0].Optimizer, p.Shape, optim.Slice{P: s.p, State: s.state, G: s.sum, Ends: ends}, hyper, scalars)
				b.Copy(s.c, s.p)
				hyper.Release()
				ends.Release()
			}
		}
		out.scalars = append(out.scalars, append([]float64{}, tensor.Host[float64](scalars)...))
		updates += int(tensor.Host[float64](scalars)[tensor.ScalarApply])
	}
	for _, p := range n.params() {
		out.params[p.Name] = append([]float32{}, tensor.Host[float32](states[p].p)...)
		if p.Frozen {
			continue
		}
		for i, slot := range c.kind(p).Optimizer.Slots() {
			out.state[slot.Name+" of "+p.Name] = slices.Clone(tensor.HostBytes(states[p].state[i]))
		}
	}
	return out
}

type setup struct {
	world        int
	accumulation int
	replicas     int
	strategy     string
	local        bool // not world-invariant
	steps        int
	poison       int // step whose last micro-batch has a NaN on one rank; negative for none
	evaluate     bool
	late         int // steps started before a step's result is read
	gather       parallel.AllGather
	reshard      int // size of Mesh.Reshard; 0 for none
	// group wraps each group of a rank; may be nil.
	group func(rank int, axis string, g collective.Group) collective.Group
	// opened is called with each rank's backend.
	opened  func(rank int, b device.Device)
	offload parallel.Offload
	files   func(rank int, dir string) (*disk.File, error) // nil: real ones
	spans   []*trace.Recorder                              // of each rank; nil: none
	// in is called when a unit runs on a rank.
	in func(rank, unit int, back bool)
	// after is called on each rank at the end, before it closes.
	after func(rank int, b device.Device, e *parallel.Engine, rest tensor.Usage)
}

func (d setup) recorder(rank int) *trace.Recorder {
	if d.spans == nil {
		return nil
	}
	return d.spans[rank]
}

func (d setup) String() string {
	return fmt.Sprintf("%s, %d ranks, %d replicas, %d micro-batches each, local %t", d.strategy, d.world, d.replicas, d.accumulation, d.local)
}

type wrappedWorld struct {
	collective.World
	d setup
}

func (w wrappedWorld) Group(name string, ranks []int) (collective.Group, error) {
	g, err := w.World.Group(name, ranks)
	if g == nil || w.d.group == nil {
		return g, err
	}
	return w.d.group(w.Rank(), name, g), nil
}

// train is plain with an Engine; errs has each rank's error.
func (c toy) train(t testing.TB, d setup) (out *outcome, errs []error) {
	t.Helper()
	worlds, err := collective.NewLocal(d.world, collective.Config{Timeout: 20 * time.Second, Trace: d.recorder})
	if err != nil {
		t.Fatal(err)
	}
	out = &outcome{params: map[string][]float32{}, state: map[string][]byte{}}
	errs = make([]error, d.world)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for r, w := range worlds {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if errs[r] = c.rank(t, w, d, out, &mu); errs[r] != nil {
				w.Abort(errs[r])
			}
		}()
	}
	wg.Wait()
	for _, w := range worlds {
		if err := w.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	return out, errs
}

func (c toy) rank(t testing.TB, w collective.World, d setup, out *outcome, mu *sync.Mutex) (err error) {
	b, err := device.Open("cpu", device.Options{Reserve: 1 << 32})
	if err != nil {
		return err
	}
	defer b.Close()
	if d.opened != nil {
		d.opened(w.Rank(), b)
	}
	n := c.make(b)
	if d.in != nil {
		n.in = func(unit int, back bool) { d.in(w.Rank(), unit, back) }
	}
	s, err := parallel.ParseStrategy(d.strategy)
	if err != nil {
		return err
	}
	mesh, err := parallel.NewMesh(wrappedWorld{w, d}, parallel.MeshShape{parallel.Replicate: d.replicas, parallel.Shard: d.world / d.replicas}, d.reshard)
	if err != nil {
		return err
	}
	o := parallel.Options{Strategy: s, WorldInvariant: !d.local, Precision: c.precision, Optim: c.how(), AllGather: d.gather, Offload: d.offload}
	if d.files != nil {
		o = o.WithFiles(func(dir string) (*disk.File, error) { return d.files(w.Rank(), dir) })
	}
	e, err := parallel.New(b, mesh, n.units, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	e.SetTrace(d.recorder(w.Rank()))
	if err := e.Init(7); err != nil {
		return err
	}
	if err := e.Refresh(context.Background()); err != nil {
		return err
	}
	inputs, loss := optim.NewInputs(b, e.ParamGroups()), b.New(tensor.Workspace, tensor.F64, 1)
	rest := b.Meter().Read()
	ctx := context.Background()
	var unread []*parallel.Result
	updates := 0
	outcome := func() {
		scalars := unread[0].Scalars()
		unread = unread[1:]
		updates += int(scalars[tensor.ScalarApply])
		if w.Rank() == 0 {
			out.scalars = append(out.scalars, scalars)
		}
	}
	for step := range d.steps {
		pass := func(m int, train bool) int64 {
			b.Fill(loss, 0)
			tape := autograd.NewTape(b, c.precision.Param, train)
			tokens, release := n.loss(tape, loss, step, m)
			if train && step == d.poison && m == d.world*d.accumulation-1 {
				b.Fill(loss, nan())
			}
			e.AddSums(loss)
			tape.Backward()
			release()
			return tokens
		}
		if err := e.Guard(func() {
			if d.evaluate {
				e.Begin(ctx, 1, false)
				e.Finish(pass(w.Rank(), false)+pass(w.Rank(), false), 0, nil)
			}
			tokens := int64(0)
			e.Begin(ctx, d.accumulation, true)
			for a := range d.accumulation {
				e.NextMicroBatch()
				tokens += pass(a*d.world+w.Rank(), true)
			}
			result := e.Finish(tokens, maxNorm, nil)
			inputs.Write(b, updates, rate)
			inputs.Next(b, result)
			e.Update(inputs.Hyper, result)
			e.Publish()
			unread = append(unread, e.Result())
		}); err != nil {
			return err
		}
		if len(unread) > d.late {
			outcome()
		}
	}
	for len(unread) > 0 {
		outcome()
	}
	if err := e.Sync(); err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	for _, p := range e.OwnedParams() {
		all := out.params[p.Name]
		if all == nil {
			all = make([]float32, p.Shape.Elems())
			for i := range all {
				all[i] = float32(nan()) // not owned yet
			}
			out.params[p.Name] = all
		}
		part := read(t, p.Data)
		for run := range p.Runs() {
			copy(all[run.Y:], part[run.X:run.X+run.N])
		}
	}
	for _, it := range e.State() {
		if it.Kind == checkpoint.Param {
			continue
		}
		size, key := it.DType.Size(), it.Kind+" of "+it.Name
		if out.state[key] == nil {
			out.state[key] = make([]byte, it.Shape.Elems()*size)
		}
		part := readBytes(t, it.Data)
		for run := range it.Runs() {
			copy(out.state[key][run.Y*size:], part[run.X*size:(run.X+run.N)*size])
		}
	}
	if d.after != nil {
		d.after(w.Rank(), b, e, rest)
	}
	return nil
}

func read(t testing.TB, x *tensor.Tensor) []float32 {
	return tensor.FromBytes[float32](readBytes(t, x))
}

func readBytes(t testing.TB, x *tensor.Tensor) []byte {
	if x.Buffer().Backing == nil {
		return tensor.HostBytes(x)
	}
	out := make([]byte, x.Bytes())
	if err := tensor.Fetch(out, x); err != nil {
		t.Error(err)
	}
	return out
}
