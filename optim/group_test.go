package optim_test

import (
	"strings"
	"testing"

	"trireme/optim"
	"trireme/tensor"
)

// TestGroups: the first matching group applies; unset options keep their defaults. Selectors work
// in groups.
func TestGroups(t *testing.T) {
	rest, sgd := optim.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8}, optim.SGD{Momentum: 0.9}
	muon := optim.Muon{Momentum: 0.9, Rest: rest}
	decay := 0.3
	g := optim.Grouping{Optimizer: muon, WeightDecay: 0.1, Groups: []optim.Group{
		{Match: "a.*", LRFactor: 2},
		{Match: "*.x", LRFactor: 3, WeightDecay: &decay, Optimizer: sgd},
		{Match: "*", LRFactor: 0, Optimizer: muon},
	}}
	matrix, vector := tensor.Shape{4, 3}, tensor.Shape{4}
	for _, c := range []struct {
		p    optim.Param
		want optim.ParamOptions
	}{
		{optim.Param{Name: "a.x", Shape: matrix, Hidden: true}, optim.ParamOptions{Optimizer: muon, LRFactor: 2, WeightDecay: 0.1}},
		{optim.Param{Name: "a.x", Shape: matrix}, optim.ParamOptions{Optimizer: rest, LRFactor: 2, WeightDecay: 0.1}},
		{optim.Param{Name: "b.x", Shape: vector}, optim.ParamOptions{Optimizer: sgd, LRFactor: 3, WeightDecay: decay}},
		{optim.Param{Name: "c", Shape: matrix, Hidden: true}, optim.ParamOptions{Optimizer: muon, WeightDecay: 0.1}},
		{optim.Param{Name: "c", Shape: vector}, optim.ParamOptions{Optimizer: rest}},
	} {
		if got := g.Of(c.p); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.p, got, c.want)
		}
	}
	params := []optim.Param{{Name: "a.x", Shape: matrix}, {Name: "b.y", Shape: matrix}}
	if err := g.Check(params); err == nil || !strings.Contains(err.Error(), `"*.x"`) {
		t.Errorf("a group whose only parameter an earlier one has: %v", err)
	}
	if err := g.Check(append(params, optim.Param{Name: "b.x"})); err != nil {
		t.Error(err)
	}
}

// TestNesterovNeedsMomentum and no dampening.
func TestNesterovNeedsMomentum(t *testing.T) {
	for _, c := range []struct {
		momentum, dampening float64
		ok                  bool
	}{{0, 0, false}, {0.9, 0.1, false}, {0.9, 0, true}} {
		_, err := optim.Config{"name": "sgd", "momentum": c.momentum, "dampening": c.dampening, "nesterov": true}.Make(optim.AdamDefaults{})
		if c.ok != (err == nil) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestSchedulesStayAtTheirEnd: decaying schedules do not rise after their end.
func TestSchedulesStayAtTheirEnd(t *testing.T) {
	for _, kind := range []string{"linear", "cosine_with_restarts", "polynomial", "wsd", "WarmupDecayLR", "WarmupCosineLR"} {
		s := optim.DefaultSchedule()
		s.LRScheduler, s.WarmupSteps, s.LRDecaySteps, s.LRCycles = kind, 3, 5, 2
		s = s.WithTotalSteps(20)
		for step := 20; step < 25; step++ {
			if got := s.At(step); got > s.At(19) || got > s.LearningRate*1e-3 {
				t.Errorf("%s: %v after step %d", kind, got, step)
			}
		}
	}
}
