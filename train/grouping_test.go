package train

import (
	"strings"
	"testing"

	"trireme/internal/conf"
	"trireme/optim"
	"trireme/tensor"
)

// Optimizer, learning rate and weight decay of each parameter follow from the keys.
func TestGrouping(t *testing.T) {
	const text = `model: {config: c.json}
data: {path: d}
training:
  weight_decay: 0.2
  betas: [0.8, 0.9]
  optimizer: {name: adamw_8bit, min_8bit_size: 100}
  parameter_groups:
    - {match: "*norm*", weight_decay: 0.05, optimizer: lion}
    - {match: "head.weight", lr_factor: 0.1}
    - {match: "*", optimizer: {name: sgd, momentum: 0.5}}
`
	adamw := optim.AdamW{Beta1: 0.8, Beta2: 0.9, Eps: 1e-8}
	for _, ema := range []optim.EMA{{}, {Decay: 0.9, UseWarmup: true}} {
		loaded, err := conf.Load(Default(), conf.Text("x.yaml", text))
		if err != nil {
			t.Fatal(err)
		}
		c := loaded.Value.Training
		c.EMA = ema
		how, err := c.grouping()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []struct {
			name      string
			shape     tensor.Shape
			want      optim.Optimizer
			lr, decay float64
		}{
			{"a.norm.weight", tensor.Shape{8}, optim.Lion{Beta1: 0.9, Beta2: 0.99}, 1, 0.05},
			{"head.weight", tensor.Shape{9, 9}, adamw, 0.1, 0.2},
			{"head.weight", tensor.Shape{10, 10}, optim.LowBit{Elementwise: adamw, StateDType: tensor.U8, MinSize: 100}, 0.1, 0.2},
			{"head.bias", tensor.Shape{9}, optim.SGD{Momentum: 0.5}, 1, 0},
		} {
			if ema.Decay > 0 {
				p.want = optim.Averaged{Optimizer: p.want, EMA: ema}
			}
			if got, want := how.Of(optim.Param{Name: p.name, Shape: p.shape}), (optim.ParamOptions{Optimizer: p.want, LRFactor: p.lr, WeightDecay: p.decay}); got != want {
				t.Errorf("%s %v: %+v, not %+v", p.name, p.shape, got, want)
			}
		}
	}
	for text, want := range map[string]string{
		`{optimizer: lyon}`:                                            `x.yaml:1: training.optimizer: "lyon" is not one of`,
		`{parameter_groups: [{weight_decay: 1}]}`:                      "x.yaml:1:30: training.parameter_groups: group 1: match is empty",
		`{parameter_groups: [{match: "*", lr_factor: -1}]}`:            "training.parameter_groups: group 1: lr_factor is -1: it must be 0 or more",
		`{parameter_groups: [{match: "*", optimizer: {momentum: 1}}]}`: "training.parameter_groups: group 1: optimizer: needs a name",
		`{optimizer: [sgd]}`:                                           "training.optimizer is a list, not a name or a group of keys",
		`{parameter_groups: [{match: "*", lr: 1}]}`:                    `unknown key "lr" under training.parameter_groups[0]. keys there: match, lr_factor, weight_decay, optimizer`,
		`{parameter_groups: [{params: "*"}]}`:                          `unknown key "params" under training.parameter_groups[0]. keys there: match, lr_factor, weight_decay, optimizer`,
		`{ema: {update_after_step: -1}}`:                               "training.ema.update_after_step is -1",
	} {
		if _, err := conf.Load(Default(), conf.Text("x.yaml", "training: "+text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, without %s", text, err, want)
		}
	}
}
