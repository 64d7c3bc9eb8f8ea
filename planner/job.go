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

// Job is a run of so many ranks.
type Job struct {
	Config         train.Config
	Model          *model.Config
	Ranks          int
	Local          int       // ranks of one machine; 0 is all
	Positions      int       // of a row at most
	RowTokens      float64   // tokens of a row, of a plan of what is usual; 0 plans the most
	SeparateMemory bool      // the device has a memory of its own: what is offloaded to cpu is not in it
	Rows           data.Info // what micro-batches have besides ids and targets: Loader.Info
}

// Plan is what one rank needs and does in a step.
type Plan struct {
	Parameters    int64               // of the whole model
	Trainable     int64               // of those
	LargestModule int64               // of those of one module, as DeepSpeed counts them
	Memory        tensor.Usage        // of this rank, bytes; where Job.Apart, of its device
	Slots         []parallel.SlotSize // the optimizers' state, wherever it rests
	// Host is what lies in the host's memory where Job.Apart, bytes by category.
	Host     [tensor.NumCategories]int64
	Sent     []Traffic // by this rank in a step
	FLOPs    float64   // of this rank in a step, as model.Info counts them: recomputation is none
	Executed float64   // multiplications and additions that products and attention make, recomputation included

	updated int64 // elements, by this rank
}

// Run plans a rank by making one step of it where nothing is computed.
func (j Job) Run(ctx context.Context, rank int) (Plan, error) {
	accumulation, err := j.Config.Training.MaxAccumulation(j.Ranks, int(math.Ceil(j.row())))
	if err != nil {
		return Plan{}, err
	}
	if accumulation <= steadyMicroBatches+1 {
		return j.run(ctx, rank, accumulation)
	}
	// Each micro-batch between the first and the last is like the one before it.
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

// steadyMicroBatches is the number of micro-batches from which on one more changes no peak: the first, whose
// gradients are the first in their place, one after it while whose reductions are under way, one
// that begins as that did, and the last.
const steadyMicroBatches = 4

// extrapolate is a plan of n micro-batches more than p has, where p has one more than before.
func (p Plan) extrapolate(before Plan, n int64) Plan {
	p.FLOPs += float64(n) * (p.FLOPs - before.FLOPs)
	p.Executed += float64(n) * (p.Executed - before.Executed)
	for i, b := range before.Sent {
		p.Sent[i].Calls += n * (p.Sent[i].Calls - b.Calls)
		p.Sent[i].Bytes += n * (p.Sent[i].Bytes - b.Bytes)
	}
	return p
}

// flopCounter is a device that counts what it would have computed.
type flopCounter interface{ Work() float64 }

// run plans a step of accumulation micro-batches.
func (j Job) run(ctx context.Context, rank, accumulation int) (Plan, error) {
	if !j.SeparateMemory {
		return j.step(ctx, rank, accumulation)
	}
	p, err := j.onDevice().step(ctx, rank, accumulation)
	if err != nil {
		return Plan{}, err
	}
	return j.splitHost(ctx, rank, accumulation, p)
}

// step simulates a step of accumulation micro-batches.
func (j Job) step(ctx context.Context, rank, accumulation int) (_ Plan, err error) {
	b, err := device.Open("meta", device.Options{})
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
	// What is counted is a step's, as a run's records do.
	sent.clear()
	b.Meter().ResetPeak()
	if err := a.Stepper.Step(ctx, j.micros(accumulation), func(int) float64 { return 0 }); err != nil {
		return Plan{}, err
	}
	if err := a.Engine.Sync(); err != nil {
		return Plan{}, err
	}
	p := Plan{
		Memory: b.Meter().Read(), Sent: sent.traffic(), Slots: a.Engine.Slots(), updated: a.Engine.Updated(),
		FLOPs: j.flops(a.Model.Info().Frozen(a.Model.Units())) * float64(accumulation),
	}
	if w, ok := b.(flopCounter); ok {
		p.Executed = w.Work()
	}
	p.count(a.Model)
	return p, nil
}

// flops are those of a micro-batch, all of whose tokens have a label.
func (j Job) flops(info model.Info) float64 {
	return info.RowFLOPs(int(math.Round(j.row()))) * float64(j.rows())
}

// count counts the model's parameters.
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

// micros are micro-batches of the job's form, all the same one, whose numbers are never read.
func (j Job) micros(accumulation int) []data.MicroBatch {
	rows, tokens := j.micro()
	return slices.Repeat([]data.MicroBatch{data.UniformMicroBatch(rows, tokens, j.Positions, j.Rows)}, accumulation)
}

// row is the tokens of a row: the most that there may be, or the usual.
func (j Job) row() float64 {
	if j.RowTokens > 0 {
		return j.RowTokens
	}
	return float64(j.Positions)
}

// rows is those of a micro-batch whose rows have that many tokens.
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

// SentBytes is what this rank sends in a step.
func (p Plan) SentBytes() int64 {
	n := int64(0)
	for _, t := range p.Sent {
		n += t.Bytes
	}
	return n
}

func (t Traffic) String() string { return fmt.Sprintf("%s over %s", t.Op, t.Group) }

// Rows is what micro-batches have where no data is at hand that says so.
func Rows(info model.Info, c train.Config) data.Info {
	return data.Info{Docs: c.Data.DocumentMask, Classes: info.Task == model.Classify}
}
