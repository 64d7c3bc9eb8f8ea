package planner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"trireme/data"
	"trireme/device"
	"trireme/model"
	"trireme/parallel"
	"trireme/tensor"
	"trireme/train"
)

// Job is a run to plan.
type Job struct {
	Config         train.Config
	Model          *model.Config
	Ranks          int
	Local          int       // ranks of one machine; 0 is all
	Positions      int       // maximum tokens of a row
	RowTokens      float64   // tokens of a row to plan for; 0 is the maximum
	SeparateMemory bool      // the device has its own memory, apart from the host's
	Rows           data.Info // fields of micro-batches besides ids and targets: Loader.Info
}

// Plan is the memory and work of one rank in a step.
type Plan struct {
	Parameters    int64               // of the whole model
	Trainable     int64               // parameters that are not frozen
	LargestModule int64               // parameters of the largest module, as DeepSpeed counts them
	Memory        tensor.Usage        // of this rank, bytes; with Job.SeparateMemory, of its device
	Slots         []parallel.SlotSize // optimizer state, wherever it is stored
	// Host is the host's memory in bytes by category, with Job.SeparateMemory.
	Host     [tensor.NumCategories]int64
	Sent     []Traffic // by this rank in a step
	FLOPs    float64   // of this rank in a step, as in model.Info, without recomputation
	Executed float64   // multiplications and additions of matrix products and attention, with recomputation
	Work     Work      // operations of this rank in a step, with recomputation

	updated int64    // elements that this rank updates
	issued  []issued // collectives in order, of the simulated micro-batches
	// repeats is the step's work over that of the simulated micro-batches.
	repeats float64
}

// Run plans a rank by running one step on the meta backend.
func (j Job) Run(ctx context.Context, rank int) (Plan, error) {
	accumulation, err := j.Config.Training.MaxAccumulation(j.Ranks, int(math.Ceil(j.row())))
	if err != nil {
		return Plan{}, err
	}
	if accumulation <= steadyMicroBatches+1 {
		return j.run(ctx, rank, accumulation)
	}
	// Micro-batches between the first and the last are equal: extrapolate.
	short, err := j.run(ctx, rank, steadyMicroBatches)
	if err != nil {
		return Plan{}, err
	}
	long, err := j.run(ctx, rank, steadyMicroBatches+1)
	if err != nil {
		return Plan{}, err
	}
	if short.Memory != long.Memory {
		return j.run(ctx, rank, accumulation)
	}
	return long.extrapolate(short, int64(accumulation-steadyMicroBatches-1)), nil
}

// steadyMicroBatches is the number of micro-batches beyond which one more changes no peak: the first,
// which allocates gradients, two that overlap with reductions, and the last.
const steadyMicroBatches = 4

// extrapolate adds n micro-batches to p, which has one more than before.
func (p Plan) extrapolate(before Plan, n int64) Plan {
	full := p.Work.plus(p.Work.minus(before.Work), float64(n))
	p.repeats = full.Products / p.Work.Products
	p.Work = full
	p.FLOPs += float64(n) * (p.FLOPs - before.FLOPs)
	p.Executed += float64(n) * (p.Executed - before.Executed)
	for i, b := range before.Sent {
		p.Sent[i].Calls += n * (p.Sent[i].Calls - b.Calls)
		p.Sent[i].Bytes += n * (p.Sent[i].Bytes - b.Bytes)
	}
	return p
}

// counter is a backend that counts operations.
type counter interface {
	Work() float64
	Products() float64
	Attended() float64
	Moved() float64
	State() float64
	Calls() int64
}

// workOf returns the operations so far.
func workOf(b tensor.Backend) (w Work) {
	if c, ok := b.(counter); ok {
		w = Work{Products: c.Products(), Attention: c.Attended(), Bytes: c.Moved(), State: c.State(), Calls: float64(c.Calls())}
	}
	return w
}

func (j Job) run(ctx context.Context, rank, accumulation int) (Plan, error) {
	if !j.SeparateMemory {
		return j.step(ctx, rank, accumulation)
	}
	if !j.Config.Device.Name.Accelerator() { // for --gpu_memory alone
		j.Config.Device.Name = device.CUDA
	}
	p, err := j.onDevice().step(ctx, rank, accumulation)
	if err != nil {
		return Plan{}, err
	}
	return j.splitHost(ctx, rank, accumulation, p)
}

func (j Job) step(ctx context.Context, rank, accumulation int) (_ Plan, err error) {
	b, err := device.Open("meta", device.Options{For: j.Config.Device.Name})
	if err != nil {
		return Plan{}, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	var sent ledger
	a, err := j.Config.Build(b, j.Model, j.Positions, train.Ranks{Ranks: &ranks{rank, j.Ranks, &sent}, Local: j.Local}, true)
	if err != nil {
		return Plan{}, err
	}
	defer a.Engine.Close()
	if err := a.Engine.Refresh(ctx); err != nil {
		return Plan{}, err
	}
	if err := a.Engine.Sync(); err != nil {
		return Plan{}, err
	}
	// Count only the step, as a run's records do.
	sent.clear()
	b.Meter().ResetPeak()
	before := workOf(b)
	sent.at = func() Work { return workOf(b).minus(before) }
	if err := a.Stepper.Step(ctx, j.micros(accumulation), func(int) float64 { return 0 }); err != nil {
		return Plan{}, err
	}
	if err := a.Engine.Sync(); err != nil {
		return Plan{}, err
	}
	p := Plan{
		Memory: b.Meter().Read(), Sent: sent.traffic(), issued: sent.issued, repeats: 1, Slots: a.Engine.Slots(), updated: a.Engine.Updated(),
		FLOPs: j.flops(a.Model.Info().Frozen(a.Model.Units())) * float64(accumulation),
	}
	if c, ok := b.(counter); ok {
		p.Executed = c.Work()
	}
	p.Work = workOf(b).minus(before)
	p.count(a.Model)
	return p, nil
}

// flops returns the FLOPs of a micro-batch in which all tokens have a label.
func (j Job) flops(info model.Info) float64 {
	return info.RowFLOPs(int(math.Round(j.row()))) * float64(j.rows())
}

func (p *Plan) count(m model.Model) {
	modules := map[string]int64{}
	for _, q := range model.Params(m) {
		n := int64(q.Shape.Elems())
		p.Parameters += n
		if !q.Frozen {
			p.Trainable += n
		}
		module := q.Name[:max(0, strings.LastIndexByte(q.Name, '.'))]
		modules[module] += n
		p.LargestModule = max(p.LargestModule, modules[module])
	}
}

func (j Job) micros(accumulation int) []data.MicroBatch {
	rows, tokens := j.micro()
	return slices.Repeat([]data.MicroBatch{data.UniformMicroBatch(rows, tokens, j.Positions, j.Rows)}, accumulation)
}

func (j Job) row() float64 {
	if j.RowTokens > 0 {
		return j.RowTokens
	}
	return float64(j.Positions)
}

func (j Job) rows() int {
	t := j.Config.Training
	if t.MicroBatchTokens == 0 {
		return t.MicroBatchSize
	}
	return t.GlobalBatchSize / data.MaxMicroBatches(t.GlobalBatchSize, t.MicroBatchTokens, int(math.Ceil(j.row())))
}

// micro is the rows and tokens of a micro-batch: the most that there may be, or those of rows of
// the usual length.
func (j Job) micro() (rows, tokens int) {
	t := j.Config.Training
	tokens = t.MaxTokens(j.Positions)
	switch {
	case j.RowTokens > 0:
		return j.rows(), min(tokens, int(math.Ceil(float64(j.rows())*j.RowTokens)))
	case t.MicroBatchTokens > 0:
		return min(t.GlobalBatchSize, tokens), tokens
	}
	return t.MicroBatchSize, tokens
}

// SentBytes returns the bytes this rank sends in a step.
func (p Plan) SentBytes() int64 {
	n := int64(0)
	for _, t := range p.Sent {
		n += t.Bytes
	}
	return n
}

func (t Traffic) String() string { return fmt.Sprintf("%s over %s", t.Op, t.Group) }

// Rows returns the fields of micro-batches if there is no data to tell.
func Rows(info model.Info, c train.Config) data.Info {
	return data.Info{Docs: c.Data.DocumentMask, Classes: info.Task == model.Classify}
}
