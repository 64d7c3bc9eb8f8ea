package optim

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"trireme/internal/conf"
)

// Schedule gives the learning rate of each optimizer step. Steps are optimizer steps, never
// micro-batches, and are not multiplied by ranks.
type Schedule struct {
	Kind        string  // one of Schedules
	LR          float64 // the peak
	MinLR       float64 // where DeepSpeed's warm-up begins
	WarmupSteps int
	TotalSteps  int
	WarmupType  string  // of WarmupLR and WarmupDecayLR: log (the default) or linear
	Power       float64 // of polynomial; 0 is 1
	EndLR       float64 // of polynomial; 0 is transformers' 1e-7
}

// Schedules are the kinds: transformers' names in lower case, DeepSpeed's as it writes them.
var Schedules = []string{"constant", "constant_with_warmup", "linear", "cosine", "polynomial", "WarmupLR", "WarmupDecayLR"}

// Validate checks the kind and the numbers. Its errors begin with the configuration's keys.
func (s Schedule) Validate() error {
	var errs []error
	if err := conf.OneOf(s.Kind, Schedules...); err != nil {
		errs = append(errs, fmt.Errorf("lr_scheduler: %w", err))
	}
	if s.WarmupSteps < 0 {
		errs = append(errs, fmt.Errorf("warmup_steps is %d: it must not be negative", s.WarmupSteps))
	}
	if s.WarmupType != "" {
		if err := conf.OneOf(s.WarmupType, "log", "linear"); err != nil {
			errs = append(errs, fmt.Errorf("warmup_type: %w", err))
		}
	}
	return errors.Join(errs...)
}

// At is the learning rate of the step that follows s applied steps: the first step is At(0),
// which is 0 where there is a warm-up.
func (c Schedule) At(s int) float64 {
	if strings.HasPrefix(c.Kind, "Warmup") {
		return c.deepspeed(s)
	}
	w, total := c.WarmupSteps, c.TotalSteps
	if s < w && c.Kind != "constant" {
		return c.LR * (float64(s) / float64(max(1, w)))
	}
	left := float64(max(1, total-w))
	switch c.Kind {
	case "linear":
		// (total-s)/left, in the form whose last bit the reference runs have.
		return c.LR * math.Max(0, 1-float64(s-w)/left)
	case "cosine":
		progress := float64(s-w) / left
		return c.LR * math.Max(0, 0.5*(1+cos(math.Pi*progress)))
	case "polynomial":
		return c.polynomial(s)
	}
	return c.LR
}

func (c Schedule) polynomial(s int) float64 {
	power, end := c.Power, c.EndLR
	if power == 0 {
		power = 1
	}
	if end == 0 {
		end = 1e-7
	}
	if s > c.TotalSteps {
		return end
	}
	left := 1 - float64(s-c.WarmupSteps)/float64(c.TotalSteps-c.WarmupSteps)
	return (c.LR-end)*math.Pow(left, power) + end
}

// deepspeed is WarmupLR and WarmupDecayLR of DeepSpeed's runtime/lr_schedules.py.
func (c Schedule) deepspeed(s int) float64 {
	w := max(2, c.WarmupSteps)
	gamma := 1.0
	switch {
	case s < w && c.WarmupType == "linear":
		gamma = float64(s) / float64(w)
	case s < w:
		gamma = math.Log(float64(s+1)) / math.Log(float64(w))
	case c.Kind == "WarmupDecayLR":
		gamma = math.Max(0, float64(c.TotalSteps-s)/math.Max(1, float64(c.TotalSteps-w)))
	}
	return c.MinLR + (c.LR-c.MinLR)*gamma
}
