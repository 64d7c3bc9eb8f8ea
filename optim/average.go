package optim

import (
	"trireme/fault"
	"trireme/tensor"
)

// Averaged wraps an optimizer and keeps an exponential moving average of the parameters. Skipped
// steps do not change the average.
type Averaged struct {
	Optimizer
	EMA
}

// EMA is the node `training.ema`: an exponential moving average of the weights, in float32.
type EMA struct {
	// Decay is the factor of the old average: average = decay x average + (1 - decay) x weights. 0
	// keeps no average. Default 0.
	Decay float64 `yaml:"decay"`
	// UpdateAfterStep is the step after which averaging starts; until then the average equals the
	// weights. Default 0.
	UpdateAfterStep int `yaml:"update_after_step"`
	// UseWarmup caps decay at (1 + n) / (10 + n) after n averaged steps, to forget the initial
	// weights sooner. Default false.
	UseWarmup bool `yaml:"use_warmup"`
}

// AverageSlot is the slot of the average.
const AverageSlot = "ema"

// Slots are the optimizer's, then the average.
func (o Averaged) Slots() []Slot { return append(o.Optimizer.Slots(), slots(AverageSlot)...) }

// Hyper returns the optimizer's inputs, then the average's.
func (o Averaged) Hyper(lr, weightDecay float64, t int) []float64 {
	return append(o.Optimizer.Hyper(lr, weightDecay, t), lr, weightDecay, 1-o.keep(t))
}

// keep returns the decay of update t (from 1).
func (c EMA) keep(t int) float64 {
	n := t - 1 - c.UpdateAfterStep // averaged updates so far
	switch {
	case n <= 0:
		return 0
	case c.UseWarmup:
		return min(c.Decay, float64(1+n)/float64(10+n))
	}
	return c.Decay
}

// Step runs the element-wise optimizer, then updates the average.
func (o Averaged) Step(b tensor.Backend, s Slice, hyper, scalars *tensor.Tensor) {
	o.Optimizer.(Elementwise).Step(b, o.Inner(s), hyper, scalars)
	o.Average(b, s, hyper, scalars)
}

// Inner returns s without the average.
func (Averaged) Inner(s Slice) Slice {
	s.State = s.State[:len(s.State)-1]
	return s
}

// Average updates the average after the optimizer's step.
func (o Averaged) Average(b tensor.Backend, s Slice, hyper, scalars *tensor.Tensor) {
	at := len(o.Optimizer.Hyper(0, 0, 1))
	s.State = s.State[len(s.State)-1:]
	elementwise(b, tensor.Average{}, s, hyper.Cols(at, at+tensor.AverageCount), scalars)
}

// For returns the optimizer of p, averaged.
func (o Averaged) For(p Param) Optimizer {
	return Averaged{suited(o.Optimizer, p), o.EMA}
}

func (c EMA) Validate() error {
	if !(c.Decay >= 0 && c.Decay < 1) {
		return fault.Try(fault.At("decay", "is %v: it must be in [0, 1)", c.Decay), "0.999")
	}
	if c.UpdateAfterStep < 0 {
		return fault.At("update_after_step", "is %d: it must not be negative", c.UpdateAfterStep)
	}
	return nil
}
