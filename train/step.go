package train

import (
	"context"
	"iter"
	"math"

	"trireme/autograd"
	"trireme/data"
	"trireme/model"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
	"trireme/trace"
)

// Stepper runs optimizer steps and evaluations on this rank. It is used by one goroutine.
type Stepper struct {
	b       tensor.Backend
	model   model.Model
	engine  *parallel.Engine
	maxNorm float64 // of the mean gradient; 0 or less does not clip

	inputs  *optim.Inputs
	sums    *tensor.Tensor // F64 [Info.SumCount]
	scaler  *optim.Scaler  // nil for none
	scale   *tensor.Tensor // F64 [tensor.LossScaleCount]: the scaler's state; nil for none
	seed    uint64
	offload *diskOffload // saved layer inputs; nil keeps them in memory
	trace   *trace.Recorder
	// beforeEnd runs after the last micro-batch of a step, before its votes are summed; nil for nothing.
	beforeEnd func()
	// beforeUpdate runs before the state changes, or when the program that changes it is recorded; nil for nothing.
	beforeUpdate func()
	// Host state up to the last result read, and the results not yet read.
	updates int
	last    *optim.ScalerState // nil if losses are not scaled
	pending []pendingResult
}

// pendingResult is a step or an evaluation whose result has not been read.
type pendingResult struct {
	result *parallel.Result
	rate   func(update int) float64 // nil for an evaluation
	scale  func() []byte            // the loss scaler's state after it; nil for none
}

// NewStepper returns a Stepper for model m sharded by engine e. Activations have the engine's
// parameter type; seed seeds dropout and other random operations of a pass.
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

// SetTrace sets the recorder of this rank's spans, also of the engine; nil records none.
func (s *Stepper) SetTrace(r *trace.Recorder) {
	s.trace = r
	s.engine.SetTrace(r)
	if s.offload != nil {
		s.offload.trace = r
	}
}

// ScaleLoss scales the loss of the following steps, starting from a state.
func (s *Stepper) ScaleLoss(scaler *optim.Scaler, from optim.ScalerState) {
	if s.scale == nil {
		s.scale = s.b.New(tensor.Workspace, tensor.F64, tensor.LossScaleCount)
	}
	s.scaler, s.last = scaler, &from
	scaler.Write(s.b, s.scale, from)
}

// LossScale returns the scaler's state after the steps whose results were read; nil if losses are
// not scaled.
func (s *Stepper) LossScale() *optim.ScalerState { return s.last }

// Start sets the number of updates applied before the first step. The default is 0.
func (s *Stepper) Start(updates int) {
	s.updates = updates
	s.inputs.Start(s.b, updates)
}

// lossGrad returns the gradient of the loss that starts the backward pass; nil is 1.
func (s *Stepper) lossGrad() *tensor.Tensor {
	if s.scaler == nil {
		return nil
	}
	return optim.GradSeed(s.scale)
}

// castBuffers converts a model's buffers to type dt.
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

// Step runs one optimizer step on this rank's micro-batches. rate returns the learning rate for a
// number of applied updates. If the loss or the gradient is not finite, no rank changes its state,
// and StepResult.Applied is false. One micro-batch is one program; several are one each, after one for the
// beginning, and the last has the end of the step. Up to optim.MaxInFlight steps may be enqueued before the first
// result is read.
func (s *Stepper) Step(ctx context.Context, micros []data.MicroBatch, rate func(update int) float64) error {
	if len(s.pending) == optim.MaxInFlight {
		panic("train: Step called with too many unread results")
	}
	shapes, err := s.shapes(ctx, micros...)
	if err != nil {
		return err
	}
	p := pendingResult{rate: rate}
	tokens := int64(0)
	begin := func() { s.engine.Begin(ctx, len(micros), true) }
	micro := func(i int) {
		s.engine.NextMicroBatch()
		s.pass(micros[i], shapes[i], true)
		tokens += micros[i].LabelCount
	}
	end := func() {
		if s.beforeEnd != nil {
			s.beforeEnd()
		}
		result := s.engine.Finish(tokens, s.maxNorm, s.lossGrad())
		s.inputs.Write(s.b, s.updates, rate)
		s.inputs.Next(s.b, result)
		if s.beforeUpdate != nil {
			s.beforeUpdate()
		}
		s.engine.Update(s.inputs.Hyper, result)
		if s.scaler != nil {
			s.scaler.Update(s.b, s.scale, result)
			p.scale = tensor.DownloadAsync(s.b, s.scale)
		}
		s.engine.Publish()
		p.result = s.engine.Result()
	}
	if len(micros) == 1 {
		err = s.compile(true, func() { begin(); micro(0); end() })
	} else if err = s.compile(false, begin); err == nil {
		err = s.accumulate(len(micros), micro, end)
	}
	if s.offload != nil && s.offload.err != nil {
		return s.offload.err
	}
	if err == nil {
		s.pending = append(s.pending, p)
	}
	return err
}

// accumulate runs n micro-batches, the last one with the end of the step.
func (s *Stepper) accumulate(n int, micro func(i int), end func()) error {
	for i := range n - 1 {
		if err := s.compile(false, func() { micro(i); s.engine.EndMicroBatch() }); err != nil {
			return err
		}
	}
	return s.compile(true, func() { micro(n - 1); end() })
}

// compile runs f as a program where the backend compiles one. last is tensor.Compile's.
func (s *Stepper) compile(last bool, f func()) error {
	run := func() error { return tensor.Compile(s.b, last, func() error { return s.engine.Guard(f) }) }
	if !tensor.Static(s.b) {
		return run()
	}
	span, compiled := s.trace.Begin(trace.Span{Kind: trace.Program}), len(tensor.Compiled(s.b))
	err := run()
	if len(tensor.Compiled(s.b)) > compiled {
		span.Kind = trace.Compile
	}
	s.trace.End(span)
	return err
}

// Close removes the file of saved layer inputs.
func (s *Stepper) Close() error {
	if s.offload == nil {
		return nil
	}
	return s.offload.Close()
}

// Evaluate sums the loss of micro-batches over all ranks. It changes no state. Every rank passes the
// same number of micro-batches; those without labels count nothing. The beginning and the end are
// programs of their own, so all micro-batches of the same shapes are one program.
func (s *Stepper) Evaluate(ctx context.Context, micros iter.Seq2[*data.MicroBatch, error]) error {
	if err := s.compile(false, func() { s.engine.Begin(ctx, 1, false) }); err != nil {
		return err
	}
	tokens := int64(0)
	for m, err := range micros {
		if err != nil {
			return err
		}
		shapes, err := s.shapes(ctx, *m)
		if err != nil {
			return err
		}
		if err := s.compile(false, func() {
			s.pass(*m, shapes[0], false)
			s.engine.EndMicroBatch()
		}); err != nil {
			return err
		}
		tokens += m.LabelCount
	}
	p := pendingResult{}
	if err := s.compile(true, func() {
		s.engine.Finish(tokens, 0, nil)
		p.result = s.engine.Result()
	}); err != nil {
		return err
	}
	s.pending = append(s.pending, p)
	return nil
}

// pass runs a micro-batch forward, and backward if grad is true.
func (s *Stepper) pass(m data.MicroBatch, as shape, grad bool) {
	span := s.trace.Begin(trace.Span{Kind: trace.Upload})
	batch, done := upload(s.b, m, as)
	s.trace.End(span)
	defer done()
	batch.Train, batch.Seed = grad, s.seed
	s.b.Fill(s.sums, 0)
	tape := autograd.NewTape(s.b, s.engine.Precision().Param, grad)
	tape.SetLossGrad(s.lossGrad())
	if s.offload != nil {
		tape.SetOffload(s.offload)
	}
	if s.trace != nil {
		tape.OnRecompute(s.engine.Recompute)
	}
	model.Loss(s.model, tape, batch, s.sums)
	s.engine.AddSums(s.sums)
	tape.Backward()
}

// StepResult is the result of a step or an evaluation. It is the same on every rank.
type StepResult struct {
	*parallel.Result
	LR       float64 // of a step
	Loss     float64 // mean over label tokens
	GradNorm float64 // of the mean gradient, before clipping
	Tokens   int64   // label tokens over all ranks
	// LossScale is the scaler's state before the step; nil if losses are not scaled.
	LossScale *optim.ScalerState
	Applied   bool // false if the step was skipped: loss or gradient was not finite
	// Sums are the model's metric sums, in the order of its Info. Per-label counts are in
	// evaluations only.
	Sums []float64
}

// overflowed reports whether a step was skipped by an overflow that a lower loss scale may avoid: the
// loss is finite and the scale can fall.
func (s *Stepper) overflowed(o StepResult) bool {
	return !o.Applied && o.LossScale != nil && s.scaler.CanDecrease(o.LossScale.Scale) && !math.IsNaN(o.Loss-o.Loss)
}

// Result waits for the oldest unread step or evaluation.
func (s *Stepper) Result() StepResult {
	p := s.pending[0]
	s.pending = s.pending[1:]
	span := s.trace.Begin(trace.Span{})
	if tensor.Static(s.b) {
		span.Kind = trace.Program
	}
	v := p.result.Scalars()
	s.trace.End(span)
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
