package optim_test

import (
	"encoding/json"
	"math"
	"testing"

	"trireme/optim"
	"trireme/tensor"
)

var adams = optim.AdamDefaults{Betas: [2]float64{0.9, 0.95}, Eps: 1e-8}

func TestConfig(t *testing.T) {
	adamw := optim.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8}
	for _, c := range []struct {
		config optim.Config
		want   optim.Optimizer
	}{
		{optim.Config{"name": "adamw"}, adamw},
		{optim.Config{"name": "adamw", "betas": []any{0.8, int64(0)}, "eps": 1e-6, "bias_correction": false}, optim.AdamW{Beta1: 0.8, Eps: 1e-6, Uncorrected: true}},
		{optim.Config{"name": "adam"}, optim.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, L2: true}},
		{optim.Config{"name": "adam", "adam_w_mode": true}, adamw},
		{optim.Config{"name": "adamw_bf16"}, optim.LowBit{Elementwise: adamw, StateDType: tensor.BF16}},
		{optim.Config{"name": "adamw_8bit"}, optim.LowBit{Elementwise: adamw, StateDType: tensor.U8, MinSize: 4096}},
		{optim.Config{"name": "sgd"}, optim.SGD{}},
		{optim.Config{"name": "sgd", "momentum": 0.9, "nesterov": true}, optim.SGD{Momentum: 0.9, Nesterov: true}},
		{optim.Config{"name": "lion"}, optim.Lion{Beta1: 0.9, Beta2: 0.99}},
		{optim.Config{"name": "lamb", "max_coeff": int64(5)}, optim.LAMB{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Min: 0.01, Max: 5}},
		{optim.Config{"name": "adafactor", "eps": []any{1e-20, int64(0)}, "beta1": nil}, optim.Adafactor{Eps1: 1e-20, ClipThreshold: 1, DecayRate: -0.8, ScaleParameter: true, RelativeStep: true}},
		{optim.Config{"name": "muon", "ns_steps": int64(3), "adjust_lr_fn": "match_rms_adamw"},
			optim.Muon{Momentum: 0.95, Nesterov: true, Coefficients: [3]float64{3.4445, -4.775, 2.0315}, Eps: 1e-7, Steps: 3, AdjustLR: optim.AdjustMatchRMS, Rest: adamw}},
		{optim.Config{"name": "adagrad", "lr_decay": 0.1}, optim.Adagrad{Decay: 0.1, Eps: 1e-10}},
	} {
		got, err := c.config.Make(adams)
		if err != nil || got != c.want {
			t.Errorf("%v: %+v, %v, not %+v", c.config, got, err, c.want)
		}
	}
	if o := (optim.LowBit{Elementwise: adamw, StateDType: tensor.U8, MinSize: 4096}); o.For(optim.Param{Shape: tensor.Shape{63, 65}}) != adamw || o.For(optim.Param{Shape: tensor.Shape{64, 64}}) != o {
		t.Error("8-bit state must be for parameters of 4096 elements or more")
	}
}

// TestMuonLeavesTheRest: AdamW updates parameters that are not hidden matrices.
func TestMuonLeavesTheRest(t *testing.T) {
	o, err := optim.Config{"name": "muon"}.Make(adams)
	if err != nil {
		t.Fatal(err)
	}
	how := optim.Grouping{Optimizer: o}
	for _, c := range []struct {
		p    optim.Param
		want string
	}{
		{optim.Param{Shape: tensor.Shape{4, 6}, Hidden: true}, "muon"},
		{optim.Param{Shape: tensor.Shape{4, 6}}, "adamw"},
		{optim.Param{Shape: tensor.Shape{6}, Hidden: true}, "adamw"},
	} {
		if got := how.Of(c.p).Optimizer.Name(); got != c.want {
			t.Errorf("%+v is updated by %s, want %s", c.p, got, c.want)
		}
	}
}

func TestConfigRefuses(t *testing.T) {
	for _, c := range []struct {
		config optim.Config
		want   string
	}{
		{optim.Config{"name": "sgdd"}, `"sgdd" is not one of adafactor, adagrad, adam, adamw, adamw_8bit, adamw_bf16, lamb, lion, muon, sgd. did you mean "sgd"?`},
		{optim.Config{"momentum": 0.9}, "needs a name: one of adafactor, adagrad, adam, adamw, adamw_8bit, adamw_bf16, lamb, lion, muon, sgd. try: name: adamw"},
		{optim.Config{"name": "sgd", "momentun": 0.9}, `sgd has no parameter "momentun". did you mean "momentum"?`},
		{optim.Config{"name": "adamw", "momentum": 0.9}, `adamw has no parameter "momentum": it is one of muon, sgd. adamw has betas, eps, bias_correction. try: remove it`},
		{optim.Config{"name": "lion", "rho": 0.9}, `lion has no parameter "rho". lion has betas`},
		{optim.Config{"name": "sgd", "lr": 0.1}, "lr is not a parameter of the optimizer. try: training.learning_rate"},
		{optim.Config{"name": "sgd", "weight_decay": 0.1}, "weight_decay is not a parameter of the optimizer. try: training.weight_decay"},
		{optim.Config{"name": "sgd", "momentum": 1.5, "nesterov": "yes"}, "momentum is 1.5: it must be in [0, 1); nesterov is yes: it must be true or false"},
		{optim.Config{"name": "sgd", "nesterov": true}, "nesterov is true: it needs a momentum, and no dampening"},
		{optim.Config{"name": "adamw", "betas": []any{0.9}}, "betas is [0.9]: it must be a list of 2 numbers"},
		{optim.Config{"name": "adamw", "betas": []any{0.9, 1.0}}, "betas has 1: each must be in [0, 1)"},
		{optim.Config{"name": "adamw", "eps": "small"}, "eps is small: it must be a number"},
		{optim.Config{"name": "adamw", "eps": 0.0}, "eps is 0: it must be positive"},
		{optim.Config{"name": "muon", "ns_steps": 2.5, "adjust_lr_fn": "half"}, `ns_steps is 2.5: it must be an integer from 1 to 99; adjust_lr_fn: "half" is not one of original, match_rms_adamw, none`},
		{optim.Config{"name": "lamb", "max_coeff": 0.001}, "min_coeff is 0.01: it must not exceed max_coeff, 0.001"},
		{optim.Config{"name": "muon", "eps": math.Inf(1)}, "eps is +Inf: it must be a number"},
		{optim.Config{"name": "adafactor", "relative_step": false, "warmup_init": true}, "warmup_init is true: it needs relative_step"},
		{optim.Config{"name": "adamw_8bit", "min_8bit_size": 1.5}, "min_8bit_size is 1.5: it must be an integer, 0 or more"},
		{optim.Config{"name": true}, `"true" is not one of adafactor`},
	} {
		o, err := c.config.Make(adams)
		if err == nil || len(err.Error()) < len(c.want) || err.Error()[:len(c.want)] != c.want {
			t.Errorf("%v: %v, %v, not %s", c.config, o, err, c.want)
		}
	}
}

// Any configuration yields an error or an optimizer with inputs and slots.
func FuzzConfig(f *testing.F) {
	f.Add(`{"name": "sgd", "momentum": 0.9, "nesterov": true}`)
	f.Add(`{"name": "adamw", "betas": [0.9, "x"], "eps": null}`)
	f.Add(`{"name": ["adamw"], "lr": {}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var c optim.Config
		if json.Unmarshal([]byte(text), &c) != nil {
			return
		}
		o, err := c.Make(adams)
		if err != nil {
			return
		}
		o.Slots()
		if len(o.Hyper(1e-3, 0.1, 1)) < tensor.CommonInputs {
			t.Errorf("%s: %v has %d inputs", text, o, len(o.Hyper(1e-3, 0.1, 1)))
		}
	})
}
