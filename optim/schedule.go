package optim

import (
	"errors"
	"math"
	"slices"
	"strings"

	"trireme/fault"
	"trireme/internal/conf"
)

// Schedule is the learning rate per optimizer step: its keys are in the node `training`. Steps are
// optimizer steps, independent of micro-batches and ranks.
type Schedule struct {
	// LearningRate is the peak learning rate. It is not scaled by the number of ranks. Default
	// 0.0003.
	LearningRate float64 `yaml:"learning_rate"`
	// LRScheduler is the learning rate schedule. One of constant | constant_with_warmup | linear |
	// cosine | cosine_with_restarts | polynomial | inverse_sqrt | wsd | WarmupLR | WarmupDecayLR |
	// WarmupCosineLR. linear and cosine decay to 0 at the last step, cosine to min_lr if that is
	// set. wsd warms up, stays at learning_rate and decays in the last lr_decay_steps. WarmupLR,
	// WarmupDecayLR and WarmupCosineLR are DeepSpeed's, the others transformers'. Default cosine.
	LRScheduler string `yaml:"lr_scheduler"`
	// MinLR is the final learning rate of cosine and wsd, and the initial one of the warmup of wsd,
	// WarmupLR and WarmupDecayLR. Default 0.
	MinLR float64 `yaml:"min_lr"`
	// MinLRRatio is min_lr as a fraction of learning_rate, for cosine, wsd and WarmupCosineLR
	// (DeepSpeed's cos_min_ratio). Set it or min_lr. Default 0.
	MinLRRatio float64 `yaml:"min_lr_ratio"`
	// WarmupSteps is the number of steps in which the learning rate rises to learning_rate. Default
	// 0.
	WarmupSteps int `yaml:"warmup_steps"`
	// WarmupRatio is the warmup as a fraction of all steps, rounded down. Set it or warmup_steps.
	// Default 0.
	WarmupRatio float64 `yaml:"warmup_ratio"`
	// WarmupType is the shape of the warmup. One of log | linear | cosine | 1-sqrt. DeepSpeed's
	// schedules support log and linear, wsd linear, cosine and 1-sqrt. Empty is log for DeepSpeed's
	// schedules, linear for the others. Default "".
	WarmupType string `yaml:"warmup_type"`
	// WarmupMinRatio is the fraction of learning_rate at which the warmup of WarmupCosineLR starts.
	// Default 0.
	WarmupMinRatio float64 `yaml:"warmup_min_ratio"`
	// LRDecaySteps is the number of final steps in which wsd decays. wsd needs it or
	// lr_decay_ratio. Default 0.
	LRDecaySteps int `yaml:"lr_decay_steps"`
	// LRDecayRatio is lr_decay_steps as a fraction of all steps, rounded down. Default 0.
	LRDecayRatio float64 `yaml:"lr_decay_ratio"`
	// LRDecayType is the shape of wsd's decay. One of linear | cosine | 1-sqrt. Default cosine.
	LRDecayType string `yaml:"lr_decay_type"`
	// LRCycles is the number of cycles of cosine_with_restarts, each from learning_rate to 0.
	// Default 1.
	LRCycles int `yaml:"lr_cycles"`
	// LRPower is the exponent of polynomial. Default 1.
	LRPower float64 `yaml:"lr_power"`
	// LREnd is the final learning rate of polynomial. Default 1e-07.
	LREnd float64 `yaml:"lr_end"`
	// LRTimescale is the timescale of inverse_sqrt in steps: after the warmup, the learning rate is
	// proportional to 1/sqrt(1 + n/lr_timescale) after n more steps. 0 is warmup_steps, or 10000
	// without a warmup. Default 0.
	LRTimescale int `yaml:"lr_timescale"`

	// TotalSteps is the length of the run.
	TotalSteps int `yaml:"-"`
}

// DefaultSchedule returns the defaults.
func DefaultSchedule() Schedule {
	return Schedule{LearningRate: 3e-4, LRScheduler: "cosine", LRDecayType: "cosine", LRCycles: 1, LRPower: 1, LREnd: 1e-7}
}

var schedules = []string{
	"constant", "constant_with_warmup", "linear", "cosine", "cosine_with_restarts", "polynomial", "inverse_sqrt", "wsd",
	"WarmupLR", "WarmupDecayLR", "WarmupCosineLR",
}

// Validate checks all values. Errors start with the configuration's key.
func (c Schedule) Validate() error {
	var errs []error
	bad := func(wrong bool, key, format string, args ...any) {
		if wrong {
			errs = append(errs, fault.At(key, format, args...))
		}
	}
	oneOf := func(key, value string, names ...string) {
		err := conf.OneOf(value, names...)
		bad(err != nil, key, "%w", err)
	}
	oneOf("lr_scheduler", c.LRScheduler, schedules...)
	oneOf("lr_decay_type", c.LRDecayType, "linear", "cosine", "1-sqrt")
	switch {
	case c.WarmupType == "":
	case c.LRScheduler == "wsd":
		oneOf("warmup_type", c.WarmupType, "linear", "cosine", "1-sqrt")
	case c.deepspeed():
		oneOf("warmup_type", c.WarmupType, "log", "linear")
	default:
		oneOf("warmup_type", c.WarmupType, "log", "linear", "cosine", "1-sqrt")
	}
	for _, ratio := range []struct {
		key   string
		value float64
	}{{"min_lr_ratio", c.MinLRRatio}, {"warmup_ratio", c.WarmupRatio}, {"warmup_min_ratio", c.WarmupMinRatio}, {"lr_decay_ratio", c.LRDecayRatio}} {
		bad(!(ratio.value >= 0 && ratio.value <= 1), ratio.key, "is %v: it must be between 0 and 1", ratio.value)
	}
	bad(!(c.LearningRate >= 0) || math.IsInf(c.LearningRate, 0), "learning_rate", "is %v: it must be a number, 0 or more", c.LearningRate)
	bad(!(c.MinLR >= 0) || math.IsInf(c.MinLR, 0), "min_lr", "is %v: it must be a number, 0 or more", c.MinLR)
	bad(c.MinLR > 0 && c.MinLRRatio > 0, "min_lr", "is %v and min_lr_ratio is %v: set only one", c.MinLR, c.MinLRRatio)
	bad(c.WarmupSteps < 0, "warmup_steps", "is %d: it must not be negative", c.WarmupSteps)
	if c.WarmupRatio > 0 && c.WarmupSteps > 0 {
		errs = append(errs, fault.Try(fault.At("warmup_steps", "is %d and warmup_ratio is %v: set only one", c.WarmupSteps, c.WarmupRatio), "%s", fault.Set("training.warmup_ratio", 0)))
	}
	bad(c.LRDecaySteps < 0, "lr_decay_steps", "is %d: it must not be negative", c.LRDecaySteps)
	bad(c.LRDecayRatio > 0 && c.LRDecaySteps > 0, "lr_decay_steps", "is %d and lr_decay_ratio is %v: set only one", c.LRDecaySteps, c.LRDecayRatio)
	bad(c.LRCycles < 1, "lr_cycles", "is %d: it must be at least 1", c.LRCycles)
	bad(!(c.LRPower > 0) || math.IsInf(c.LRPower, 0), "lr_power", "is %v: it must be positive", c.LRPower)
	bad(!(c.LREnd >= 0) || math.IsInf(c.LREnd, 0), "lr_end", "is %v: it must be a number, 0 or more", c.LREnd)
	bad(c.LRTimescale < 0, "lr_timescale", "is %d: it must not be negative", c.LRTimescale)
	if c.LRScheduler == "wsd" && c.LRDecaySteps == 0 && c.LRDecayRatio == 0 {
		errs = append(errs, fault.Try(fault.At("lr_scheduler", "is wsd, which needs the length of the decay"), "%s", fault.Set("training.lr_decay_ratio", 0.2)))
	}
	return errors.Join(errs...)
}

// Unused lists keys that are set but have no effect with this schedule.
func (c Schedule) Unused() (notes []error) {
	d := DefaultSchedule()
	for _, k := range []struct {
		key   string
		set   bool
		value any
		kinds []string
	}{
		{"min_lr", c.MinLR != 0, c.MinLR, []string{"cosine", "wsd", "WarmupLR", "WarmupDecayLR"}},
		{"min_lr_ratio", c.MinLRRatio != 0, c.MinLRRatio, []string{"cosine", "wsd", "WarmupCosineLR"}},
		{"warmup_type", c.WarmupType != "" && c.WarmupType != "linear", c.WarmupType, []string{"wsd", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR"}},
		{"warmup_min_ratio", c.WarmupMinRatio != 0, c.WarmupMinRatio, []string{"WarmupCosineLR"}},
		{"lr_decay_steps", c.LRDecaySteps != 0, c.LRDecaySteps, []string{"wsd"}},
		{"lr_decay_ratio", c.LRDecayRatio != 0, c.LRDecayRatio, []string{"wsd"}},
		{"lr_decay_type", c.LRDecayType != d.LRDecayType, c.LRDecayType, []string{"wsd"}},
		{"lr_cycles", c.LRCycles != d.LRCycles, c.LRCycles, []string{"cosine_with_restarts"}},
		{"lr_power", c.LRPower != d.LRPower, c.LRPower, []string{"polynomial"}},
		{"lr_end", c.LREnd != d.LREnd, c.LREnd, []string{"polynomial"}},
		{"lr_timescale", c.LRTimescale != 0, c.LRTimescale, []string{"inverse_sqrt"}},
	} {
		if k.set && !slices.Contains(k.kinds, c.LRScheduler) {
			notes = append(notes, fault.At(k.key, "%v has no effect: lr_scheduler is %s. used by %s", k.value, c.LRScheduler, strings.Join(k.kinds, ", ")))
		}
	}
	return notes
}

// WithTotalSteps returns the schedule of a run of n steps, with ratios resolved to steps.
func (c Schedule) WithTotalSteps(n int) Schedule {
	c.WarmupSteps += int(float64(n) * c.WarmupRatio)
	c.LRDecaySteps += int(float64(n) * c.LRDecayRatio)
	c.WarmupRatio, c.LRDecayRatio, c.TotalSteps = 0, 0, n
	return c
}

// At returns the learning rate after s applied steps. At(0), the first step's, is 0 with a warmup
// from 0.
func (c Schedule) At(s int) float64 {
	if c.deepspeed() {
		return c.atDeepSpeed(s)
	}
	w, total := c.WarmupSteps, c.TotalSteps
	if s < w && c.LRScheduler == "wsd" {
		return c.LearningRate * c.above(rise(c.WarmupType, float64(s)/float64(w)))
	}
	if s < w && c.LRScheduler != "constant" {
		return c.LearningRate * (float64(s) / float64(max(1, w)))
	}
	progress := float64(s-w) / float64(max(1, total-w))
	switch c.LRScheduler {
	case "linear":
		// (total-s)/left, in the form that matches the reference runs to the last bit.
		return c.LearningRate * math.Max(0, 1-progress)
	case "cosine":
		return c.LearningRate * math.Max(0, c.above(0.5*(1+cos(math.Pi*progress))))
	case "cosine_with_restarts":
		if progress >= 1 {
			return 0
		}
		return c.LearningRate * math.Max(0, 0.5*(1+cos(math.Pi*math.Mod(float64(c.LRCycles)*progress, 1))))
	case "polynomial":
		if s > total {
			return c.LREnd
		}
		return (c.LearningRate-c.LREnd)*math.Pow(1-progress, c.LRPower) + c.LREnd
	case "inverse_sqrt":
		scale := c.LRTimescale
		if scale == 0 && w > 0 {
			scale = w
		} else if scale == 0 {
			scale = 10_000
		}
		return c.LearningRate * (1 / math.Sqrt(float64(s+scale-w)/float64(scale)))
	case "wsd":
		into := s - (total - c.LRDecaySteps)
		if into < 0 {
			return c.LearningRate
		}
		return c.LearningRate * c.above(fall(c.LRDecayType, math.Min(1, float64(into)/float64(max(1, c.LRDecaySteps)))))
	}
	return c.LearningRate
}

// above maps [0, 1] to [minimum, 1] times the peak.
func (c Schedule) above(share float64) float64 {
	least := c.MinLRRatio
	if c.MinLR > 0 && c.LearningRate > 0 {
		least = c.MinLR / c.LearningRate
	}
	if least == 0 {
		return share
	}
	return share*(1-least) + least
}

// rise goes from 0 to 1 in a shape of wsd's warmup.
func rise(shape string, x float64) float64 {
	switch shape {
	case "cosine":
		return 0.5 * (1 - cos(math.Pi*x))
	case "1-sqrt":
		return 1 - math.Sqrt(1-x)
	}
	return x
}

// fall goes from 1 to 0 in a shape of wsd's decay.
func fall(shape string, x float64) float64 {
	switch shape {
	case "cosine":
		return 0.5 * (1 + cos(math.Pi*x))
	case "1-sqrt":
		return 1 - math.Sqrt(x)
	}
	return 1 - x
}

func (c Schedule) deepspeed() bool {
	return c.LRScheduler == "WarmupLR" || c.LRScheduler == "WarmupDecayLR" || c.LRScheduler == "WarmupCosineLR"
}

// atDeepSpeed follows DeepSpeed's runtime/lr_schedules.py; s is its last_batch_iteration.
func (c Schedule) atDeepSpeed(s int) float64 {
	w := max(2, c.WarmupSteps)
	gamma := 1.0
	switch {
	case s < w && c.WarmupType == "linear":
		gamma = float64(s) / float64(w)
	case s < w:
		gamma = math.Log(float64(s+1)) / math.Log(float64(w))
	case c.LRScheduler == "WarmupDecayLR":
		gamma = math.Max(0, float64(c.TotalSteps-s)/math.Max(1, float64(c.TotalSteps-w)))
	}
	if c.LRScheduler != "WarmupCosineLR" {
		return c.MinLR + (c.LearningRate-c.MinLR)*gamma
	}
	if s < w {
		return c.LearningRate * (c.WarmupMinRatio + gamma*(1-c.WarmupMinRatio))
	}
	progress := math.Min(1, float64(s-w+1)/float64(max(1, c.TotalSteps-w)))
	return c.LearningRate * math.Max(0, c.MinLRRatio+(1-c.MinLRRatio)*(0.5*(1+cos(math.Pi*progress))))
}
