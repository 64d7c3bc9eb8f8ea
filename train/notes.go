package train

import (
	"errors"
	"fmt"
	"strings"

	"trireme/fault"
	"trireme/optim"
)

const highLearningRate = 1

// notes returns warnings about a configuration, one line each.
func (c Training) notes(schedule optim.Schedule) (notes []error) {
	add := func(format string, args ...any) { notes = append(notes, fmt.Errorf(format, args...)) }
	steps, warmup := schedule.TotalSteps, schedule.WarmupSteps
	last := schedule.At(steps - 1)
	key := fmt.Sprintf("warmup_steps %d", warmup)
	if c.WarmupRatio > 0 {
		key = fmt.Sprintf("warmup_ratio %v", c.WarmupRatio)
	}
	switch {
	case c.LearningRate == 0:
		add("learning_rate is 0: nothing is trained")
	case c.LearningRate > highLearningRate:
		add("learning_rate %v is high: AdamW changes each parameter by about that much per step. usual: 1e-5 to 1e-2", c.LearningRate)
	}
	switch {
	case warmup < steps || last >= c.LearningRate:
	case last == 0:
		err := fmt.Errorf("%s, but the run has %s: the learning rate stays 0 and nothing is trained", key, count(steps, "step"))
		notes = append(notes, fault.Try(err, "%s", fault.Set("training.warmup_steps", 0)))
	default:
		err := fmt.Errorf("%s, but the run has %s: the learning rate ends at %.3g and never reaches %v", key, count(steps, "step"), last, c.LearningRate)
		notes = append(notes, fault.Try(err, "%s", fault.Set("training.warmup_steps", steps/10)))
	}
	if c.MinLR > c.LearningRate && (c.LRScheduler == "cosine" || c.LRScheduler == "wsd") {
		add("min_lr %v is above learning_rate %v: the learning rate rises to it", c.MinLR, c.LearningRate)
	}
	if c.EMA.Decay == 0 && (c.EMA.UseWarmup || c.EMA.UpdateAfterStep > 0) {
		notes = append(notes, fault.Try(errors.New("ema has no effect: ema.decay is 0"), "%s", fault.Set("training.ema.decay", 0.999)))
	}
	name, _ := c.Optimizer["name"].(string)
	if relative, ok := c.Optimizer["relative_step"].(bool); name == "adafactor" && (relative || !ok) && c.LearningRate != Default().Training.LearningRate {
		err := fmt.Errorf("learning_rate %v has no effect: adafactor computes its own", c.LearningRate)
		notes = append(notes, fault.Try(err, "%s and %s", fault.Set("training.optimizer.relative_step", false), fault.Set("training.optimizer.scale_parameter", false)))
	}
	if !strings.HasPrefix(name, "adam") && name != "muon" && c.Betas != Default().Training.Betas {
		add("betas %v has no effect: optimizer %s takes its parameters from training.optimizer", c.Betas, name)
	}
	return append(notes, c.Unused()...)
}
