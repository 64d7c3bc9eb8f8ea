package optim_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"trireme/internal/backend/naive"
	"trireme/optim"
	"trireme/tensor"
)

type scaled struct {
	*optim.Scaler
	b              tensor.Backend
	state, scalars *tensor.Tensor
}

func newScaled(s *optim.Scaler) *scaled {
	b := naive.New()
	r := &scaled{s, b, b.New(tensor.Workspace, tensor.F64, tensor.LossScaleCount), b.New(tensor.Workspace, tensor.F64, tensor.ScalarCount)}
	s.Write(b, r.state, s.Start())
	return r
}

// step runs a step with or without overflow.
func (s *scaled) step(overflow bool) optim.ScalerState {
	v := make([]float64, tensor.ScalarCount)
	v[tensor.ScalarTokens] = 3
	if !overflow {
		v[tensor.ScalarApply] = 1
	}
	s.b.Upload(s.scalars, tensor.AsBytes(v))
	s.Update(s.b, s.state, s.scalars)
	return s.Read(tensor.HostBytes(s.state))
}

// TestOracle runs torch's own test of its update (with another backoff, through the backend) and
// checks torch's and DeepSpeed's defaults. The file cites its sources.
func TestOracle(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "loss_scaler.json"))
	if err != nil {
		t.Fatal(err)
	}
	var o struct {
		Case struct {
			Growth, Backoff, Start float64
			Interval               int
			FoundInf               []int     `json:"found_inf_sequence"`
			Scale                  []float64 `json:"scale_after"`
			Tracker                []float64 `json:"tracker_after"`
		} `json:"update_scale_case"`
		Torch struct {
			InitScale      float64 `json:"init_scale"`
			GrowthFactor   float64 `json:"growth_factor"`
			BackoffFactor  float64 `json:"backoff_factor"`
			GrowthInterval int     `json:"growth_interval"`
		} `json:"gradscaler_defaults"`
		DeepSpeed struct {
			Power      int     `json:"initial_scale_power"`
			Window     int     `json:"loss_scale_window"`
			Hysteresis int     `json:"hysteresis"`
			Min        float64 `json:"min_loss_scale"`
		} `json:"deepspeed_dynamic"`
	}
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	c := o.Case
	b := naive.New()
	state, scalars := b.New(tensor.Workspace, tensor.F64, tensor.LossScaleCount), b.New(tensor.Workspace, tensor.F64, tensor.ScalarCount)
	b.Upload(state, tensor.AsBytes([]float64{c.Start, c.Start, 0, 1}))
	for i, found := range c.FoundInf {
		b.Upload(scalars, tensor.AsBytes([]float64{1, 1, 1, float64(1 - found), 3}))
		b.UpdateLossScale(state, scalars, tensor.LossScaleParams{Growth: c.Growth, Backoff: c.Backoff, Window: c.Interval, Hysteresis: 1, Unit: 1})
		got := tensor.Host[float64](state)
		if got[tensor.LossScaleScale] != c.Scale[i] || got[tensor.LossScaleGoodSteps] != c.Tracker[i] {
			t.Errorf("after %d steps: %v, want a scale of %v and %v good steps", i+1, got, c.Scale[i], c.Tracker[i])
		}
	}

	conf := optim.DefaultLossScaling()
	torch := newScaled(conf.Scaler(true, 1))
	if got := torch.Start().Scale; got != o.Torch.InitScale {
		t.Errorf("torch's initial scale is %v", got)
	}
	if got := torch.step(true).Scale; got != o.Torch.InitScale*o.Torch.BackoffFactor {
		t.Errorf("torch's scale falls to %v", got)
	}
	for i := range o.Torch.GrowthInterval {
		want := o.Torch.InitScale * o.Torch.BackoffFactor
		if i == o.Torch.GrowthInterval-1 {
			want *= o.Torch.GrowthFactor
		}
		if got := torch.step(false).Scale; got != want {
			t.Fatalf("after %d good steps torch's scale is %v", i+1, got)
		}
	}

	conf.Kind = optim.DeepSpeedScaler
	ds, first := newScaled(conf.Scaler(false, 1)), float64(uint64(1)<<o.DeepSpeed.Power)
	for i := range o.DeepSpeed.Hysteresis {
		want := first
		if i == o.DeepSpeed.Hysteresis-1 {
			want /= 2
		}
		if got := ds.step(true).Scale; got != want {
			t.Errorf("after %d overflows DeepSpeed's scale is %v", i+1, got)
		}
	}
	if got := ds.step(true).Scale; got != first/4 { // hysteresis resets when the scale grows
		t.Errorf("after a further overflow DeepSpeed's scale is %v", got)
	}
	for range o.DeepSpeed.Window - 1 {
		ds.step(false)
	}
	if got := ds.step(false); got != (optim.ScalerState{Scale: first / 2, Hysteresis: o.DeepSpeed.Hysteresis}) {
		t.Errorf("after a window DeepSpeed's state is %+v", got)
	}
	for range 40 {
		ds.step(true)
	}
	if got := ds.step(true).Scale; got != o.DeepSpeed.Min || ds.CanDecrease(got) {
		t.Errorf("DeepSpeed's scale falls to %v", got)
	}
}

// TestScalerKinds: which configurations have a scaler, its initial state, and the power of two of
// positions.
func TestScalerKinds(t *testing.T) {
	if c := optim.DefaultLossScaling(); c.Scaler(false, 8) != nil {
		t.Error("a scaler without float16")
	}
	if c := (optim.LossScaling{}); c.Scaler(false, 8) != nil || c.Scaler(true, 8) == nil {
		t.Error("the zero value is not auto")
	}
	if c := (optim.LossScaling{Kind: optim.NoScaler}); c.Scaler(true, 8) != nil {
		t.Error("kind none has a scaler")
	}
	static := newScaled(optim.LossScaling{Kind: optim.StaticScaler, LossScale: 384}.Scaler(true, 100))
	for _, overflow := range []bool{true, false, true} {
		if got := static.step(overflow); got.Scale != 384 || static.CanDecrease(got.Scale) {
			t.Errorf("a static scale becomes %v", got)
		}
	}
	if got := tensor.Host[float64](optim.GradSeed(static.state))[0]; got != 6 {
		t.Errorf("at a scale of 384 and 100 positions the initial gradient is %v, want 384/64", got)
	}
	if st, err := static.Resume(&optim.ScalerState{Scale: 7}); err != nil || st.Scale != 384 {
		t.Errorf("a static scale resumes as %v, %v", st, err)
	}
	torch := optim.LossScaling{Kind: optim.TorchScaler}.Scaler(true, 1)
	for scale, want := range map[float64]bool{2: true, 1: false, 0.5: false} { // a scale of 1 has no effect
		if torch.CanDecrease(scale) != want {
			t.Errorf("a scale of %v can fall: %v", scale, !want)
		}
	}
	// A lower hysteresis and a higher minimum apply at once.
	lower := optim.LossScaling{Kind: optim.DeepSpeedScaler, Hysteresis: 3, MinScale: 16}.Scaler(true, 1)
	if st, err := lower.Resume(&optim.ScalerState{Scale: 8, Good: 5, Hysteresis: 7}); err != nil || st != (optim.ScalerState{Scale: 16, Good: 5, Hysteresis: 3}) {
		t.Errorf("a dynamic scale resumes as %+v, %v", st, err)
	}
	for _, bad := range []optim.ScalerState{{}, {Scale: -1}, {Scale: 2, Good: -1}, {Scale: 1e300}} {
		if _, err := optim.DefaultLossScaling().Scaler(true, 1).Resume(&bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	for _, bad := range []optim.LossScaling{
		{Kind: optim.StaticScaler}, {Kind: optim.TorchScaler, LossScale: 2}, {InitialScalePower: 128}, {InitialScalePower: -1}, {GrowthInterval: -1}, {Hysteresis: -1}, {MinScale: -1},
	} {
		if bad.Validate() == nil {
			t.Errorf("%+v is valid", bad)
		}
	}
}
