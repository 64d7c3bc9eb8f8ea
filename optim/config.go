package optim

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"trireme/fault"
	"trireme/internal/conf"
	"trireme/tensor"
)

// Config is an optimizer's name, or a map with its name and parameters named as in torch.optim.
type Config map[string]any

// nameKey is the key of a configuration that is only a string.
const nameKey = "name"

// ShortKey implements the short form of a configuration.
func (Config) ShortKey() string { return nameKey }

// Choices lists the optimizers.
func (Config) Choices() []string { return slices.Sorted(maps.Keys(builders)) }

// AdamDefaults are the defaults of Adam's parameters, which have configuration keys.
type AdamDefaults struct {
	Betas [2]float64
	Eps   float64
}

// builders construct optimizers from their parameters.
var builders = map[string]func(*args) Optimizer{
	"adamw": func(a *args) Optimizer { return a.adam() },
	"adam": func(a *args) Optimizer {
		o := a.adam()
		o.L2 = !a.flag("adam_w_mode", false)
		return o
	},
	"adamw_bf16": func(a *args) Optimizer { return LowBit{Elementwise: a.adam(), StateDType: tensor.BF16} },
	"adamw_8bit": func(a *args) Optimizer {
		return LowBit{Elementwise: a.adam(), StateDType: tensor.U8, MinSize: int(a.number("min_8bit_size", 4096, count))}
	},
	"adagrad": func(a *args) Optimizer {
		return Adagrad{Decay: a.number("lr_decay", 0, notNegative), Initial: a.number("initial_accumulator_value", 0, notNegative), Eps: a.number("eps", 1e-10, positive)}
	},
	"adafactor": func(a *args) Optimizer {
		eps := a.numbers("eps", 1e-30, 1e-3)
		if !(eps[0] > 0 && eps[1] >= 0) {
			a.fail("eps is %v: it must be positive", eps[:2])
		}
		o := Adafactor{
			Eps1: eps[0], Eps2: eps[1], ClipThreshold: a.number("clip_threshold", 1, positive), DecayRate: a.number("decay_rate", -0.8, negative),
			Beta1: a.number("beta1", 0, share), ScaleParameter: a.flag("scale_parameter", true), RelativeStep: a.flag("relative_step", true),
			WarmupInit: a.flag("warmup_init", false),
		}
		if o.WarmupInit && !o.RelativeStep {
			a.fail("warmup_init is true: it needs relative_step")
		}
		return o
	},
	"lamb": func(a *args) Optimizer {
		b := a.betas([2]float64{0.9, 0.999})
		o := LAMB{Beta1: b[0], Beta2: b[1], Eps: a.number("eps", 1e-8, positive), EpsInside: a.flag("eps_inside_sqrt", false), Uncorrected: !a.flag("bias_correction", true),
			Min: a.number("min_coeff", 0.01, notNegative), Max: a.number("max_coeff", 10, positive)}
		if o.Min > o.Max {
			a.fail("min_coeff is %v: it must not exceed max_coeff, %v", o.Min, o.Max)
		}
		return o
	},
	"muon": func(a *args) Optimizer {
		o := Muon{
			Momentum: a.number("momentum", 0.95, share), Nesterov: a.flag("nesterov", true), Coefficients: a.numbers("ns_coefficients", 3.4445, -4.7750, 2.0315),
			Eps: a.number("eps", 1e-7, positive), Steps: int(a.number("ns_steps", 5, iterations)), AdjustLR: AdjustOriginal,
			Rest: AdamW{Beta1: a.adams.Betas[0], Beta2: a.adams.Betas[1], Eps: a.adams.Eps},
		}
		if v, ok := a.take("adjust_lr_fn"); ok {
			if err := o.AdjustLR.UnmarshalText([]byte(fmt.Sprint(v))); err != nil {
				a.fail("adjust_lr_fn: %v", err)
			}
		}
		return o
	},
	"lion": func(a *args) Optimizer {
		b := a.betas([2]float64{0.9, 0.99})
		return Lion{Beta1: b[0], Beta2: b[1]}
	},
	"sgd": func(a *args) Optimizer {
		o := SGD{Momentum: a.number("momentum", 0, share), Dampening: a.number("dampening", 0, notNegative), Nesterov: a.flag("nesterov", false)}
		if o.Nesterov && (o.Momentum == 0 || o.Dampening != 0) {
			a.fail("nesterov is true: it needs a momentum, and no dampening")
		}
		return o
	},
}

func (a *args) adam() AdamW {
	b := a.betas(a.adams.Betas)
	return AdamW{Beta1: b[0], Beta2: b[1], Eps: a.number("eps", a.adams.Eps, positive), Uncorrected: !a.flag("bias_correction", true)}
}

// keysOfTraining maps torch.optim's parameters to configuration keys.
var keysOfTraining = map[string]string{"lr": "training.learning_rate", "weight_decay": "training.weight_decay"}

// Make returns the optimizer. Errors name parameters, without the configuration key.
func (c Config) Make(adams AdamDefaults) (Optimizer, error) {
	name, _ := c[nameKey].(string)
	build, ok := builders[name]
	if !ok {
		if _, given := c[nameKey]; !given {
			return nil, fault.Try(fmt.Errorf("needs a name: one of %s", strings.Join(c.Choices(), ", ")), "name: adamw")
		}
		return nil, conf.NotOneOf(fmt.Sprint(c[nameKey]), c.Choices()...)
	}
	a := &args{Config: c, adams: adams}
	o := build(a)
	for _, key := range slices.Sorted(maps.Keys(c)) {
		if key != nameKey && !slices.Contains(a.known, key) {
			a.unknown(name, key)
		}
	}
	if len(a.errs) > 0 {
		return nil, errors.New(strings.Join(a.errs, "; "))
	}
	return o, nil
}

// args reads parameters and records the names an optimizer supports.
type args struct {
	Config
	adams AdamDefaults
	known []string
	errs  []string
}

func (a *args) fail(format string, values ...any) {
	a.errs = append(a.errs, fmt.Sprintf(format, values...))
}

func (a *args) unknown(name, key string) {
	if other := keysOfTraining[key]; other != "" {
		a.fail("%s is not a parameter of the optimizer. try: %s", key, other)
		return
	}
	has := fmt.Sprintf("%s has %s", name, strings.Join(a.known, ", "))
	if near := conf.Nearest(key, a.known); near != "" {
		a.fail("%s has no parameter %q. did you mean %q?", name, key, near)
		return
	}
	var others []string
	for _, other := range a.Choices() {
		of := &args{adams: a.adams}
		builders[other](of)
		if slices.Contains(of.known, key) {
			others = append(others, other)
		}
	}
	if len(others) > 0 {
		a.fail("%s has no parameter %q: it is one of %s. %s. try: remove it", name, key, strings.Join(others, ", "), has)
		return
	}
	a.fail("%s has no parameter %q. %s", name, key, has)
}

// A check returns the requirement that a number violates, or "".
type check func(float64) string

func positive(x float64) string {
	if x > 0 {
		return ""
	}
	return "positive"
}

// iterations accepts iteration counts.
func iterations(x float64) string {
	if x == math.Trunc(x) && x >= 1 && x < 100 {
		return ""
	}
	return "an integer from 1 to 99"
}

func negative(x float64) string {
	if x < 0 {
		return ""
	}
	return "negative"
}

func notNegative(x float64) string {
	if x >= 0 {
		return ""
	}
	return "0 or more"
}

// count accepts element counts.
func count(x float64) string {
	if x == math.Trunc(x) && x >= 0 && x <= math.MaxInt32 {
		return ""
	}
	return "an integer, 0 or more"
}

// share accepts decay rates.
func share(x float64) string {
	if x >= 0 && x < 1 {
		return ""
	}
	return "in [0, 1)"
}

// take returns the value of a parameter, if set and not null.
func (a *args) take(key string) (any, bool) {
	a.known = append(a.known, key)
	v := a.Config[key]
	return v, v != nil
}

func (a *args) number(key string, fallback float64, must check) float64 {
	v, ok := a.take(key)
	if !ok {
		return fallback
	}
	x, ok := number(v)
	if !ok {
		a.fail("%s is %v: it must be a number", key, v)
	} else if should := must(x); should != "" {
		a.fail("%s is %v: it must be %s", key, v, should)
	}
	return x
}

func number(v any) (float64, bool) {
	switch x := v.(type) {
	case int64:
		return float64(x), true
	case float64:
		return x, x-x == 0 // finite
	}
	return 0, false
}

func (a *args) flag(key string, fallback bool) bool {
	v, ok := a.take(key)
	if !ok {
		return fallback
	}
	x, ok := v.(bool)
	if !ok {
		a.fail("%s is %v: it must be true or false", key, v)
	}
	return x
}

func (a *args) betas(fallback [2]float64) [2]float64 {
	b := a.numbers("betas", fallback[:]...)
	for _, x := range b[:2] {
		if should := share(x); should != "" {
			a.fail("betas has %v: each must be %s", x, should)
		}
	}
	return [2]float64(b[:2])
}

// numbers reads a list with one number per default, up to three.
func (a *args) numbers(key string, fallback ...float64) (all [3]float64) {
	copy(all[:], fallback)
	v, ok := a.take(key)
	if !ok {
		return all
	}
	list, _ := v.([]any)
	if len(list) != len(fallback) {
		a.fail("%s is %v: it must be a list of %d numbers", key, v, len(fallback))
		return all
	}
	for i := range list {
		x, ok := number(list[i])
		if !ok {
			a.fail("%s has %v: it must be a number", key, list[i])
		}
		all[i] = x
	}
	return all
}

// GroupConfig is an element of `training.parameter_groups`.
type GroupConfig struct {
	// Match is a parameter's name, or a pattern with * for any run of characters.
	Match string `yaml:"match"`
	// LRFactor multiplies the learning rate; null is 1.
	LRFactor *float64 `yaml:"lr_factor"`
	// WeightDecay replaces training.weight_decay for parameters of any dimension; null keeps it.
	WeightDecay *float64 `yaml:"weight_decay"`
	// Optimizer replaces training.optimizer; empty keeps it.
	Optimizer Config `yaml:"optimizer"`
}

// Make returns the group.
func (c GroupConfig) Make(adams AdamDefaults) (Group, error) {
	g := Group{Match: c.Match, LRFactor: 1, WeightDecay: c.WeightDecay}
	var errs []error
	if c.Match == "" {
		errs = append(errs, fault.Try(errors.New("match is empty"), "the name of a parameter, or * for any run of characters"))
	}
	if c.LRFactor != nil {
		g.LRFactor = *c.LRFactor
	}
	if !(g.LRFactor >= 0) {
		errs = append(errs, fmt.Errorf("lr_factor is %v: it must be 0 or more", g.LRFactor))
	}
	if g.WeightDecay != nil && !(*g.WeightDecay >= 0) {
		errs = append(errs, fmt.Errorf("weight_decay is %v: it must be 0 or more", *g.WeightDecay))
	}
	if len(c.Optimizer) > 0 {
		o, err := c.Optimizer.Make(adams)
		if err != nil {
			errs = append(errs, fmt.Errorf("optimizer: %w", err))
		}
		g.Optimizer = o
	}
	return g, errors.Join(errs...)
}
