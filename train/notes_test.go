package train

import (
	"errors"
	"strings"
	"testing"

	"trireme/optim"
)

func TestNotes(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   func(*Training)
		steps int
		want  string
	}{
		{"the default", func(*Training) {}, 12, ""},
		{"one step without warm-up", func(*Training) {}, 1, ""},
		{"a short warm-up", func(c *Training) { c.WarmupSteps = 11 }, 12, ""},
		{"a warm-up that is not used", func(c *Training) { c.WarmupSteps, c.LRScheduler = 1000, "constant" }, 12, ""},
		{"a warm-up as long as the run", func(c *Training) { c.WarmupSteps = 12 }, 12,
			"warmup_steps 12, but the run has 12 steps: the learning rate ends at 0.000275 and never reaches 0.0003. try: training.warmup_steps=1"},
		{"a longer one", func(c *Training) { c.WarmupSteps = 1000 }, 12,
			"warmup_steps 1000, but the run has 12 steps: the learning rate ends at 3.3e-06 and never reaches 0.0003. try: training.warmup_steps=1"},
		{"DeepSpeed's", func(c *Training) { c.WarmupSteps, c.LRScheduler = 1000, "WarmupLR" }, 12, "warmup_steps 1000, but the run has 12 steps: the learning rate ends at "},
		{"all of the run", func(c *Training) { c.WarmupRatio = 1 }, 12, "warmup_ratio 1, but the run has 12 steps: the learning rate ends at "},
		{"one step", func(c *Training) { c.WarmupSteps = 1 }, 1,
			"warmup_steps 1, but the run has 1 step: the learning rate stays 0 and nothing is trained. try: training.warmup_steps=0"},
		{"betas of another optimizer", func(c *Training) { c.Optimizer, c.Betas = optim.Config{"name": "lion"}, [2]float64{0.9, 0.98} }, 12, "betas [0.9 0.98] has no effect: optimizer lion takes its parameters from training.optimizer"},
		{"betas of Muon's AdamW", func(c *Training) { c.Optimizer, c.Betas = optim.Config{"name": "muon"}, [2]float64{0.9, 0.98} }, 12, ""},
		{"a key of another schedule", func(c *Training) { c.LRPower = 2 }, 12, "lr_power 2 has no effect: lr_scheduler is cosine. used by polynomial"},
		{"a warm-up of another schedule", func(c *Training) { c.WarmupType = "1-sqrt" }, 12, "warmup_type 1-sqrt has no effect: lr_scheduler is cosine. used by wsd, WarmupLR, WarmupDecayLR, WarmupCosineLR"},
		{"the warm-up of all", func(c *Training) { c.WarmupType = "linear" }, 12, ""},
		{"a least rate above the peak", func(c *Training) { c.MinLR = 1 }, 12, "min_lr 1 is above learning_rate 0.0003: the learning rate rises to it"},
		{"an average that is not kept", func(c *Training) { c.EMA.UseWarmup = true }, 12, "ema has no effect: ema.decay is 0. try: training.ema.decay=0.999"},
		{"a rate beside Adafactor's own", func(c *Training) { c.Optimizer, c.LearningRate = optim.Config{"name": "adafactor"}, 1e-3 }, 12, "learning_rate 0.001 has no effect: adafactor computes its own. try: training.optimizer.relative_step=false and training.optimizer.scale_parameter=false"},
		{"Adafactor's with a schedule", func(c *Training) {
			c.Optimizer, c.LearningRate = optim.Config{"name": "adafactor", "relative_step": false}, 1e-3
		}, 12, ""},
		{"a rate of 20", func(c *Training) { c.LearningRate = 20 }, 12, "learning_rate 20 is high: AdamW changes each parameter by about that much per step. usual: 1e-5 to 1e-2"},
		{"a rate of 0", func(c *Training) { c.LearningRate = 0 }, 12, "learning_rate is 0: nothing is trained"},
	} {
		cfg := Default().Training
		c.set(&cfg)
		var got string
		if err := errors.Join(cfg.notes(cfg.WithTotalSteps(c.steps))...); err != nil {
			got = err.Error()
		}
		if (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
	}
}
