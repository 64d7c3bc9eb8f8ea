package train

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"trireme/autograd"
	"trireme/data"
	"trireme/model"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
)

// Stepper makes optimizer steps on this rank. It is used by one goroutine.
type Stepper struct {
	b       tensor.Backend
	model   model.Model
	engine  *parallel.Engine
	maxNorm float64 // of the mean gradient; 0 or less is no limit

	inputs  *optim.Inputs
	sums    *tensor.Tensor // F64 [Info.SumCount]
	scaler  *optim.Scaler  // nil for none
	scale   *tensor.Tensor // F64 [tensor.LossScaleCount]: the scaler's state
	seed    uint64
	offload *diskOffload // of inputs of layers; nil for memory
	// What the host knows, from the outcomes that it has read, and the passes of which it has not.
	updates int
	last    *optim.ScalerState // nil where losses are not scaled
	pending []pendingResult
}

// pendingResult is a step or an evaluation whose outcome is not read yet.
type pendingResult struct {
	result *parallel.Result
	rate   func(update int) float64 // nil for an evaluation
	scale  func() []byte            // the loss scaler's state after it; nil for none
}

// NewStepper joins a model and the engine that divides it. Activations have the type of the engine's parameters; seed is of what is random in a pass.
func NewStepper(b tensor.Backend, m model.Model, e *parallel.Engine, maxNorm float64, seed uint64) *Stepper {
	info := m.Info()
	castBuffers(b, m, e.Precision().Buffer)
	e.ReserveSums(len(info.Sums), info.SumCount()-1-len(info.Sums))
	return &Stepper{
		b: b, model: m, engine: e, maxNorm: maxNorm,
		inputs: optim.NewInputs(b, e.ParamGroups()),
		sums:   b.New(tensor.Workspace, tensor.F64, info.SumCount()),
		seed:   seed,
	}
}

// ScaleLoss makes steps scale their losses from the given state on.
func (s *Stepper) ScaleLoss(scaler *optim.Scaler, from optim.ScalerState) {
	if s.scale == nil {
		s.scale = s.b.New(tensor.Workspace, tensor.F64, tensor.LossScaleCount)
	}
	s.scaler, s.last = scaler, &from
	scaler.Write(s.b, s.scale, from)
}

// LossScale is the scaler's state after the steps whose outcomes were read; nil where losses are not
// scaled.
func (s *Stepper) LossScale() *optim.ScalerState { return s.last }

// Start says how many updates were applied before the first step; without it none.
func (s *Stepper) Start(updates int) {
	s.updates = updates
	s.inputs.Start(s.b, updates)
}

// lossGrad is what losses' gradients lossGrad as; nil is 1.
func (s *Stepper) lossGrad() *tensor.Tensor {
	if s.scaler == nil {
		return nil
	}
	return optim.GradSeed(s.scale)
}

// castBuffers puts tables of type dt in the place of a model's.
func castBuffers(b tensor.Backend, m model.Model, dt tensor.DType) {
	buffered, ok := m.(model.HasBuffers)
	if !ok || dt == tensor.F32 {
		return
	}
	for _, at := range buffered.Buffers() {
		wide := *at
		*at = b.New(wide.Buffer().Cat, dt, wide.Shape()...)
		b.Copy(*at, wide)
		wide.Release()
	}
}

// Step makes one optimizer step of this rank's micro-batches; rate gives the learning rate by the
// number of updates that were applied before. Where the gradient or the loss is not finite, every
// rank leaves its state as it was; the StepResult says so. Up to optim.MaxInFlight steps may be enqueued
// before the outcome of the first is asked for.
func (s *Stepper) Step(ctx context.Context, micros []data.MicroBatch, rate func(update int) float64) error {
	if len(s.pending) == optim.MaxInFlight {
		panic("train: a step before the outcomes of those before it were read")
	}
	err := s.engine.Guard(func() {
		tokens := int64(0)
		s.engine.Begin(ctx, len(micros), true)
		for _, m := range micros {
			s.engine.NextMicroBatch()
			s.pass(m, true)
			tokens += m.LabelCount
		}
		result := s.engine.Finish(tokens, s.maxNorm, s.lossGrad())
		s.inputs.Write(s.b, s.updates, rate)
		s.inputs.Next(s.b, result)
		s.engine.Update(s.inputs.Hyper, result)
		p := pendingResult{rate: rate}
		if s.scaler != nil {
			s.scaler.Update(s.b, s.scale, result)
			p.scale = tensor.DownloadAsync(s.b, s.scale)
		}
		s.engine.Publish()
		p.result = s.engine.Result()
		s.pending = append(s.pending, p)
	})
	if s.offload != nil && s.offload.err != nil {
		return s.offload.err
	}
	return err
}

// Close gives back what is not memory.
func (s *Stepper) Close() error {
	if s.offload == nil {
		return nil
	}
	return s.offload.Close()
}

// Evaluate adds up the loss of micro-batches over all ranks without changing anything. Every
// rank passes as many; those without counted targets count nothing.
func (s *Stepper) Evaluate(ctx context.Context, micros iter.Seq2[*data.MicroBatch, error]) error {
	var failed error
	err := s.engine.Guard(func() {
		tokens := int64(0)
		s.engine.Begin(ctx, 1, false)
		for m, err := range micros {
			if err != nil {
				failed = err
				return
			}
			s.pass(*m, false)
			tokens += m.LabelCount
		}
		s.engine.Finish(tokens, 0, nil)
		s.pending = append(s.pending, pendingResult{result: s.engine.Result()})
	})
	return errors.Join(failed, err)
}

// pass runs a micro-batch forward, and back where grad says so.
func (s *Stepper) pass(m data.MicroBatch, grad bool) {
	batch, done := Upload(s.b, m)
	defer done()
	batch.Train, batch.Seed = grad, s.seed
	s.b.Fill(s.sums, 0)
	tape := autograd.NewTape(s.b, s.engine.Precision().Param, grad)
	tape.SetLossGrad(s.lossGrad())
	if s.offload != nil {
		tape.SetOffload(s.offload)
	}
	model.Loss(s.model, tape, batch, s.sums)
	s.engine.AddSums(s.sums)
	tape.Backward()
}

// Upload puts a micro-batch on a backend; done releases it. Where shapes are static, tokens that
// belong to no row, and rows without tokens, fill it up to lengths of buckets.
func Upload(b tensor.Backend, m data.MicroBatch) (batch model.Batch, done func()) {
	u := uploader{b: b}
	n, rows := len(m.InputIDs), m.Rows()
	size, count := tensor.Bucket(b, n, max(n, m.MaxTokens)), tensor.Bucket(b, rows, max(rows, m.MaxRows))
	if count > rows { // their first token is one that belongs to no row
		size = tensor.Bucket(b, n+1, max(n, m.MaxTokens)+1)
	}
	counted, targets, labels := countedRows(b, m, size)
	batch = model.Batch{
		Labeled:    model.LabeledRows{Rows: u.int32s(counted, size, size, 0), Targets: u.int32s(targets, size, size, 0), N: labels},
		IDs:        u.int32s(m.InputIDs, n, size, 0),
		Targets:    u.int32s(m.Targets, n, size, data.Ignored),
		Positions:  u.int32s(m.Positions, n, size, 0),
		Docs:       u.int32s(m.Docs, n, size, 0),
		Types:      u.int32s(m.Types, n, size, 0),
		Starts:     u.int32s(m.Starts, rows+1, count+1, int32(n)),
		MaxSeqLen:  m.MaxLength,
		Classes:    u.int32s(m.Classes, rows, count, data.Ignored),
		TokenKeys:  u.int64s(m.TokenKeys, n, size),
		SampleKeys: u.int64s(m.SampleKeys, rows, count),
	}
	return batch, u.release
}

// uploader holds what it has put on a backend.
type uploader struct {
	b    tensor.Backend
	held []*tensor.Tensor
}

// int32s uploads v, of n numbers, filled up to size; nil is nil.
func (u *uploader) int32s(v []int32, n, size int, fill int32) *tensor.Tensor {
	if v == nil {
		return nil
	}
	if size > n {
		v = append(slices.Clone(v), slices.Repeat([]int32{fill}, size-n)...)
	}
	return u.put(tensor.I32, tensor.AsBytes(v), len(v), size)
}

// int64s is ints, filled with 0.
func (u *uploader) int64s(v []int64, n, size int) *tensor.Tensor {
	if size > n {
		v = append(slices.Clone(v), make([]int64, size-n)...)
	}
	return u.put(tensor.I64, tensor.AsBytes(v), len(v), size)
}

func (u *uploader) put(dt tensor.DType, v []byte, has, size int) *tensor.Tensor {
	if has != size {
		panic(fmt.Sprintf("train: a micro-batch has %d numbers of a kind, not %d", has, size))
	}
	t := u.b.New(tensor.Workspace, dt, size)
	u.b.Upload(t, v)
	u.held = append(u.held, t)
	return t
}

func (u *uploader) release() {
	for _, t := range u.held {
		t.Release()
	}
}

// countedRows are the rows of a micro-batch that have a target, with room for size, the targets, and
// how many are read, which is a bucket's length on a backend of static shapes; nil where whole
// sequences have labels.
func countedRows(b tensor.Backend, m data.MicroBatch, size int) (rows, targets []int32, n int) {
	if m.Classes != nil || m.Targets == nil {
		return nil, nil, 0
	}
	rows, targets = make([]int32, size), slices.Repeat([]int32{data.Ignored}, size)
	for i, target := range m.Targets {
		if target >= 0 {
			rows[n], targets[n] = int32(i), target
			n++
		}
	}
	return rows, targets, tensor.Bucket(b, n, len(rows))
}

// StepResult is what a step or an evaluation computed, the same on every rank.
type StepResult struct {
	*parallel.Result
	LR       float64 // of a step
	Loss     float64 // mean over counted tokens
	GradNorm float64 // of the mean gradient, before clipping
	Tokens   int64   // counted, over all ranks
	// LossScale is the scaler's state before the step; nil where losses are not scaled.
	LossScale *optim.ScalerState
	Applied   bool // false where a step was skipped: something was not finite
	// Sums are what the model added up besides the loss, as its Info says; those of labels
	// are there in evaluations only.
	Sums []float64
}

// overflowed says whether a skipped step may be the loss scale's doing, so that a lower one may
// help: the loss is finite, which no scale changes, and the scale can fall.
func (s *Stepper) overflowed(o StepResult) bool {
	return !o.Applied && o.LossScale != nil && s.scaler.CanDecrease(o.LossScale.Scale) && !math.IsNaN(o.Loss-o.Loss)
}

// Result waits for the numbers of the oldest step or evaluation whose outcome was not read.
func (s *Stepper) Result() StepResult {
	p := s.pending[0]
	s.pending = s.pending[1:]
	v := p.result.Scalars()
	o := StepResult{
		Result: p.result, Sums: p.result.Sums(), Loss: v[tensor.ScalarLoss], GradNorm: v[tensor.ScalarGradNorm],
		Tokens: int64(math.Round(v[tensor.ScalarTokens])), Applied: v[tensor.ScalarApply] != 0, LossScale: s.last,
	}
	if p.rate == nil {
		return o
	}
	if o.LR = p.rate(s.updates); o.Applied {
		s.updates++
	}
	if p.scale != nil {
		st := s.scaler.Read(p.scale())
		s.last = &st
	}
	return o
}
