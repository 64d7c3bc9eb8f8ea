package optim

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"trireme/fault"
	"trireme/tensor"
)

// ScalerKind is the rule of a loss scaler.
type ScalerKind string

// The kinds. A kind has defaults for numbers that are 0 in the configuration.
const (
	AutoScaler      ScalerKind = "auto"      // torch if anything is float16, none otherwise
	TorchScaler     ScalerKind = "torch"     // torch.amp.GradScaler: interval 2000, hysteresis 1, no minimum
	DeepSpeedScaler ScalerKind = "deepspeed" // interval 1000, hysteresis 2, minimum 1
	StaticScaler    ScalerKind = "static"    // always loss_scale
	NoScaler        ScalerKind = "none"
)

// Choices lists the kinds.
func (ScalerKind) Choices() []string {
	return []string{string(AutoScaler), string(TorchScaler), string(DeepSpeedScaler), string(StaticScaler), string(NoScaler)}
}

// LossScaling is the node `precision.loss_scaling`: float16 gradients lose values below 2^-24, so
// the loss is multiplied by a scale before the backward pass and the update divides by it.
type LossScaling struct {
	// Kind is the rule by which the scale changes. One of auto | torch | deepspeed | static |
	// none. auto is torch if anything is float16 and none otherwise; torch is
	// torch.amp.GradScaler; static is always loss_scale. Default auto.
	Kind ScalerKind `yaml:"kind"`
	// InitialScalePower sets the initial dynamic scale to 2 to this power. Default 16.
	InitialScalePower int `yaml:"initial_scale_power"`
	// GrowthInterval is the number of consecutive steps without overflow after which the scale
	// doubles. 0 is 2000 for torch and 1000 for deepspeed. Default 0.
	GrowthInterval int `yaml:"growth_interval"`
	// Hysteresis is the number of overflows before the scale is halved; earlier ones only skip the
	// step. The count restarts when the scale doubles. 0 is 1 for torch and 2 for deepspeed.
	// Default 0.
	Hysteresis int `yaml:"hysteresis"`
	// ConsecutiveHysteresis restarts that count after each step without overflow. Default false.
	ConsecutiveHysteresis bool `yaml:"consecutive_hysteresis"`
	// MinScale is the lower bound of the scale. 0 is none for torch and 1 for deepspeed. Default 0.
	MinScale float64 `yaml:"min_scale"`
	// LossScale is the scale of kind static. Default 0.
	LossScale float64 `yaml:"loss_scale"`
}

// DefaultLossScaling returns the defaults.
func DefaultLossScaling() LossScaling { return LossScaling{Kind: AutoScaler, InitialScalePower: 16} }

func (c LossScaling) Validate() error {
	var errs []error
	bad := func(wrong bool, key, format string, args ...any) {
		if wrong {
			errs = append(errs, fault.At(key, format, args...))
		}
	}
	bad(c.InitialScalePower < 0 || c.InitialScalePower > 127, "initial_scale_power", "is %d: it must be between 0 and 127", c.InitialScalePower)
	bad(c.GrowthInterval < 0, "growth_interval", "is %d: it must not be negative", c.GrowthInterval)
	bad(c.Hysteresis < 0, "hysteresis", "is %d: it must not be negative", c.Hysteresis)
	bad(!(c.MinScale >= 0 && c.MinScale <= math.MaxFloat32), "min_scale", "is %v: it must be a number, 0 or more", c.MinScale)
	bad(!(c.LossScale >= 0 && c.LossScale <= math.MaxFloat32), "loss_scale", "is %v: it must be a number, 0 or more", c.LossScale)
	if c.Kind == StaticScaler && c.LossScale == 0 {
		errs = append(errs, fault.Try(fault.At("loss_scale", "is 0, and kind is static: it must be positive"),
			"%s, or %s", fault.Set("precision.loss_scaling.loss_scale", 1024), fault.Set("precision.loss_scaling.kind", "torch")))
	}
	bad(c.Kind != StaticScaler && c.LossScale > 0, "loss_scale", "is %v, but kind is %s: only static uses it", c.LossScale, c.Kind)
	return errors.Join(errs...)
}

// Scaler returns the scaler for micro-batches with the given number of positions, or nil for none.
// half reports whether anything is float16.
//
// The scale multiplies a micro-batch's mean loss, as in other programs, while backward here starts
// from a sum: its gradient is scale/2^k, where 2^k is the largest power of two <= positions. A
// power of two keeps the bits of gradients that neither overflow nor underflow, at any scale and
// with any number of ranks.
func (c LossScaling) Scaler(half bool, positions int) *Scaler {
	kind := c.Kind
	if (kind == AutoScaler || kind == "") && half {
		kind = TorchScaler
	}
	p := tensor.LossScaleParams{
		Growth: 2, Backoff: 0.5, Min: c.MinScale, Window: c.GrowthInterval, Hysteresis: c.Hysteresis, Consecutive: c.ConsecutiveHysteresis,
		Unit: math.Ldexp(1, 1-bits.Len(uint(max(1, positions)))),
	}
	first, interval, hysteresis := math.Ldexp(1, c.InitialScalePower), 2000, 1
	switch kind {
	case TorchScaler:
	case DeepSpeedScaler:
		interval, hysteresis = 1000, 2
		if p.Min == 0 {
			p.Min = 1
		}
	case StaticScaler:
		return &Scaler{params: p, first: c.LossScale}
	default:
		return nil
	}
	if p.Window == 0 {
		p.Window = interval
	}
	if p.Hysteresis == 0 {
		p.Hysteresis = hysteresis
	}
	return &Scaler{params: p, first: max(first, p.Min), dynamic: true}
}

// Scaler is a loss scaler. Its state is a tensor that the host does not read within a step.
type Scaler struct {
	params  tensor.LossScaleParams
	first   float64
	dynamic bool
}

// ScalerState is the state as the host reads and stores it.
type ScalerState struct {
	Scale      float64 `json:"scale"`
	Good       int     `json:"good"`       // consecutive steps without overflow
	Hysteresis int     `json:"hysteresis"` // overflows until the scale decreases, including that one
}

// Start returns the initial state.
func (s *Scaler) Start() ScalerState {
	return ScalerState{Scale: s.first, Hysteresis: s.params.Hysteresis}
}

// Resume returns the state to continue with. A static scale is always the configuration's.
func (s *Scaler) Resume(stored *ScalerState) (ScalerState, error) {
	if stored == nil || !s.dynamic {
		return s.Start(), nil
	}
	if !(stored.Scale > 0 && stored.Scale <= math.MaxFloat32) || stored.Good < 0 || stored.Hysteresis < 0 {
		return ScalerState{}, fmt.Errorf("optim: invalid loss scaler state %+v", *stored)
	}
	st := *stored
	st.Scale = max(st.Scale, s.params.Min)
	st.Hysteresis = min(st.Hysteresis, s.params.Hysteresis)
	return st, nil
}

// CanDecrease reports whether a smaller scale may avoid an overflow. At 1 or the minimum, the model
// itself overflows.
func (s *Scaler) CanDecrease(scale float64) bool { return s.dynamic && scale > max(1, s.params.Min) }

// Write uploads a state to its tensor, F64 [tensor.LossScaleCount].
func (s *Scaler) Write(b tensor.Backend, dst *tensor.Tensor, st ScalerState) {
	v := make([]float64, tensor.LossScaleCount)
	v[tensor.LossScaleGrad] = st.Scale * s.params.Unit
	v[tensor.LossScaleScale], v[tensor.LossScaleGoodSteps], v[tensor.LossScaleHysteresis] = st.Scale, float64(st.Good), float64(st.Hysteresis)
	b.Upload(dst, tensor.AsBytes(v))
}

// Read decodes the bytes of a state tensor.
func (s *Scaler) Read(state []byte) ScalerState {
	v := tensor.FromBytes[float64](state)
	return ScalerState{Scale: v[tensor.LossScaleScale], Good: int(v[tensor.LossScaleGoodSteps]), Hysteresis: int(v[tensor.LossScaleHysteresis])}
}

// GradSeed returns the gradient of the loss with which backward starts, F64 [1].
func GradSeed(state *tensor.Tensor) *tensor.Tensor {
	return state.Flat(tensor.LossScaleGrad, tensor.LossScaleGrad+1)
}

// Update updates the state with a step's outcome (F64 [tensor.ScalarCount]).
func (s *Scaler) Update(b tensor.Backend, state, scalars *tensor.Tensor) {
	if s.dynamic {
		b.UpdateLossScale(state, scalars, s.params)
	}
}
