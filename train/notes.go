package train

import (
	"fmt"

	"trireme/optim"
)

// highRate is a learning rate that AdamW does not learn with.
const highRate = 1

// notes are what is odd about a configuration and not wrong, a line each.
func (c Training) notes(schedule optim.Schedule) (notes []string) {
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	steps, warmup := schedule.TotalSteps, schedule.WarmupSteps
	last := schedule.At(steps - 1)
	key := fmt.Sprintf("warmup_steps %d", warmup)
	if c.WarmupRatio > 0 {
		key = fmt.Sprintf("warmup_ratio %v", c.WarmupRatio)
	}
	switch {
	case c.LearningRate == 0:
		add("learning_rate is 0: no parameter changes")
	case c.LearningRate > highRate:
		add("learning_rate %v: each step moves every parameter by about that much. usual for AdamW: 1e-5 to 1e-2", c.LearningRate)
	}
	switch {
	case warmup < steps || last >= c.LearningRate:
	case last == 0:
		add("%s, the run has %s: the learning rate is 0 throughout, and no parameter changes. try: --set training.warmup_steps=0", key, count(steps, "step"))
	default:
		add("%s, the run has %s: the learning rate never reaches %v, it ends at %.3g. try: --set training.warmup_steps=%d", key, count(steps, "step"), c.LearningRate, last, steps/10)
	}
	return append(notes, c.Unused()...)
}
