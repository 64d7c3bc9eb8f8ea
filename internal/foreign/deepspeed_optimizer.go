package foreign

import (
	"fmt"
	"slices"
	"strings"

	"trireme/fault"
	"trireme/internal/conf"
)

// deepspeedOptimizer is a supported optimizer of DeepSpeed.
type deepspeedOptimizer struct {
	ours string
	// lr is DeepSpeed's default; "": the trainer's defaults for lr and weight_decay.
	lr string
	// params are parameters with the same name under training.optimizer.
	params []string
	// defaults are pairs of parameters and DeepSpeed's default where it differs.
	defaults []string
}

// adamPaths are parameters with other keys with Adam.
var adamPaths = map[string]string{"betas": "training.betas", "eps": "training.eps"}

// deepspeedOptimizers are keyed by lower-case name. DeepSpeed takes other names from torch.optim.
var deepspeedOptimizers = func() map[string]deepspeedOptimizer {
	adam := deepspeedOptimizer{ours: "adamw", params: []string{"betas", "eps", "bias_correction"}}
	lamb := deepspeedOptimizer{ours: "lamb", lr: "0.001", params: []string{"betas", "eps", "bias_correction", "eps_inside_sqrt", "max_coeff", "min_coeff"}, defaults: []string{"betas", "[0.9, 0.999]"}}
	lion := deepspeedOptimizer{ours: "lion", lr: "0.001", params: []string{"betas"}, defaults: []string{"betas", "[0.9, 0.999]"}}
	return map[string]deepspeedOptimizer{
		"adam": adam, "adamw": adam, "fusedadam": adam, "deepspeedcpuadam": adam, "cpuadam": adam,
		"lamb": lamb, "fusedlamb": lamb, "lion": lion, "fusedlion": lion, "deepspeedcpulion": lion,
		"adagrad": {ours: "adagrad", lr: "0.01", params: []string{"lr_decay", "initial_accumulator_value", "eps"}},
		"sgd":     {ours: "sgd", lr: "0.001", params: []string{"momentum", "dampening", "nesterov"}},
		"muon":    {ours: "muon", lr: "0.02", params: []string{"momentum", "betas", "eps"}},
	}
}()

var otherOptimizers = []string{"MuAdam", "MuAdamW", "MuSGD", "OneBitAdam", "OneBitLamb", "ZeroOneAdam", "Adafactor", "RMSprop"}

// optimizer assigns the optimizer and its defaults, before its parameters.
func (r *reader) optimizer() {
	k, ok := r.find("optimizer", "type")
	if !ok {
		return
	}
	o, ok := deepspeedOptimizers[strings.ToLower(k.Text)]
	if !ok || k.Kind != conf.Scalar {
		return // reported by optimizerType
	}
	name := o.ours
	for _, mode := range []string{"adam_w_mode", "adamw_mode"} {
		if m, ok := r.find("optimizer", "params", mode); ok && !r.isTrue("optimizer", "params", mode) && !strings.EqualFold(k.Text, "AdamW") && m.Kind == conf.Scalar {
			name = "adam"
		}
	}
	for _, group := range []string{"bf16", "bfloat16"} {
		if r.isTrue(group, "bf16_optimizer_states") && name == "adamw" {
			name = "adamw_bf16"
		}
	}
	r.assign(k, "training.optimizer", name)
	if o.lr == "" {
		return
	}
	for path, value := range map[string]string{"lr": o.lr, "weight_decay": "0"} {
		if _, given := r.find("optimizer", "params", path); !given {
			r.byDefault(deepspeedDefault, map[string]string{"lr": "training.learning_rate", "weight_decay": "training.weight_decay"}[path], value)
		}
	}
	for i := 0; i < len(o.defaults); i += 2 {
		if _, given := r.find("optimizer", "params", o.defaults[i]); !given {
			r.assign(k, "training.optimizer."+o.defaults[i], o.defaults[i+1])
		}
	}
}

// bf16State refuses bfloat16 state for optimizers other than AdamW.
func bf16State(r *reader, k key) {
	if on, err := k.Bool(); !r.checkValue(k, boolean) || !on || err != nil {
		return
	}
	for _, a := range r.assigned {
		if a.Path == "training.optimizer" && a.Value != "adamw_bf16" {
			r.fail(k, "is true: the state of %s is float32. try: false, or AdamW", a.Value)
		}
	}
}

func optimizerType(r *reader, k key) {
	if !r.checkValue(k, textual) {
		return
	}
	if slices.ContainsFunc(otherOptimizers, func(name string) bool { return strings.EqualFold(name, k.Text) }) {
		r.fail(k, "%s is not supported; AdamW, Adam, SGD, Lion, Adagrad, Lamb and Muon are. try: \"type\": \"AdamW\"", k.Text)
		return
	}
	names := map[string]string{}
	for _, name := range []string{"Adam", "AdamW", "FusedAdam", "DeepSpeedCPUAdam", "CPUAdam", "Lamb", "FusedLamb", "Lion", "FusedLion", "DeepSpeedCPULion", "Adagrad", "SGD", "Muon"} {
		names[name] = ""
	}
	r.choose(k, names)
}

// isOptimizer reports whether to read params; an unsupported type is an error already.
func isOptimizer(r *reader, _ key) bool {
	k, ok := r.find("optimizer", "type")
	_, known := deepspeedOptimizers[strings.ToLower(k.Text)]
	return !ok || known
}

func optimizerKeys() keys {
	ks := keys{
		"lr": custom("`training.learning_rate`, unless the scheduler has warmup_max_lr", func(r *reader, k key) {
			if peak, ok := r.find("scheduler", "params", "warmup_max_lr"); (!ok || isAuto(peak.Value)) && !r.decaysFromOwn() {
				training(to("training.learning_rate", number)).apply(r, k)
			}
		}),
		"weight_decay":          training(to("training.weight_decay", number)),
		"amsgrad":               required("false", "AMSGrad is not supported"),
		"adam_w_mode":           readTogether("false with Adam: `training.optimizer: adam` (L2 in the gradient)"),
		"adamw_mode":            readTogether("same as adam_w_mode"),
		"torch_adam":            noEffect("an optimizer has one implementation"),
		"set_grad_none":         noEffect("gradients are never kept between steps"),
		"fp32_optimizer_states": constant("true", "bf16.bf16_optimizer_states keeps Adam's state in bfloat16"),
		"max_grad_norm":         required("0", "use gradient_clipping"),
		"ns_method":             noEffect("both methods compute the same matrix"),
	}
	for _, name := range []string{"muon_lr", "adam_lr"} {
		ks[name] = custom("must equal lr: Muon and its AdamW share one learning rate", func(r *reader, k key) {
			if lr, ok := r.find("optimizer", "params", "lr"); !ok || !sameText(k.Value, lr.Text) {
				r.fail(k, "is %s: Muon and its AdamW share one learning rate, lr. try: remove the key, and set training.parameter_groups with an lr_factor", k.Text)
			}
		})
	}
	for _, o := range deepspeedOptimizers {
		for _, name := range o.params {
			ks[name] = custom("`training.optimizer."+name+"`", optimizerParam)
		}
	}
	for name, path := range adamPaths {
		ks[name] = custom("`"+path+"` with Adam and Muon, `training.optimizer."+name+"` with others", optimizerParam)
	}
	return ks
}

// optimizerParam assigns a parameter of the optimizer.
func optimizerParam(r *reader, k key) {
	t, ok := r.find("optimizer", "type")
	o := deepspeedOptimizers["adamw"]
	if ok {
		o = deepspeedOptimizers[strings.ToLower(t.Text)]
	}
	if !slices.Contains(o.params, k.name()) {
		r.fail(k, "is not a parameter of %s, which has %s. try: remove the key", t.Text, strings.Join(o.params, ", "))
		return
	}
	path := "training.optimizer." + k.name()
	if p := adamPaths[k.name()]; p != "" && (o.ours == "adamw" || o.ours == "muon") { // Muon's AdamW uses them
		path = p
	}
	of := to(path, number)
	switch k.name() {
	case "betas":
		of = numbers(path, 2)
	case "bias_correction", "eps_inside_sqrt", "nesterov":
		of = to(path, boolean)
	}
	training(of).apply(r, k)
}

// otherSchedules are DeepSpeed's unsupported schedules, with alternatives.
var otherSchedules = map[string]func(error) error{
	"OneCycle": func(err error) error {
		return fault.Try(err, `"WarmupCosineLR", or leave scheduler out and %s`, fault.Set("training.lr_scheduler", "cosine_with_restarts"))
	},
	"LRRangeTest": func(err error) error { return fault.Try(err, `"WarmupLR" in runs with several learning rates`) },
}

var schedules = map[string]string{"WarmupLR": "WarmupLR", "WarmupDecayLR": "WarmupDecayLR", "WarmupCosineLR": "WarmupCosineLR"}

func schedulerType(r *reader, k key) {
	for name, try := range otherSchedules {
		if k.Kind == conf.Scalar && strings.EqualFold(name, k.Text) {
			r.refuse(k, try(fmt.Errorf("%s is not supported", k.Text)))
			return
		}
	}
	enum("training.lr_scheduler", schedules).apply(r, k)
}

// isScheduled reports whether the scheduler is supported.
func isScheduled(r *reader, _ key) bool {
	k, _ := r.find("scheduler", "type")
	_, other := otherSchedules[k.Text]
	return !other
}

// decaysFromOwn reports whether the schedule is WarmupDecayLR with its own default peak, not the
// optimizer's rate.
func (r *reader) decaysFromOwn() bool {
	k, _ := r.find("scheduler", "type")
	_, peak := r.find("scheduler", "params", "warmup_max_lr")
	return strings.EqualFold(k.Text, "WarmupDecayLR") && !peak
}

// isCosine reports whether the schedule is WarmupCosineLR, whose peak is the optimizer's rate.
func (r *reader) isCosine() bool {
	k, _ := r.find("scheduler", "type")
	return strings.EqualFold(k.Text, "WarmupCosineLR")
}

func schedulerKeys() keys {
	ks := keys{
		"warmup_num_steps":     training(to("training.warmup_steps", integer)),
		"total_num_steps":      training(to("training.max_steps", integer)),
		"warmup_type":          enum("training.warmup_type", map[string]string{"log": "log", "linear": "linear"}),
		"last_batch_iteration": constant("-1", "a resumed run continues its schedule"),
	}
	for name, of := range map[string]rule{
		"warmup_min_lr":    training(to("training.min_lr", number)),
		"warmup_max_lr":    training(to("training.learning_rate", number)),
		"warmup_min_ratio": training(to("training.warmup_min_ratio", number)),
		"cos_min_ratio":    training(to("training.min_lr_ratio", number)),
	} {
		cosine, kinds := strings.HasSuffix(name, "_ratio"), "WarmupLR and WarmupDecayLR"
		if cosine {
			kinds = "WarmupCosineLR"
		}
		ks[name] = custom(of.doc+" (with "+kinds+")", func(r *reader, k key) {
			if r.isCosine() != cosine {
				r.fail(k, "is a parameter of %s, not of this scheduler. try: remove the key", kinds)
				return
			}
			of.apply(r, k)
		})
	}
	for of, names := range map[string][]string{
		"LRRangeTest": {"lr_range_test_min_lr", "lr_range_test_step_size", "lr_range_test_step_rate", "lr_range_test_staircase"},
		"OneCycle": {"cycle_min_lr", "cycle_max_lr", "decay_lr_rate", "cycle_first_step_size", "cycle_second_step_size", "cycle_first_stair_count",
			"cycle_second_stair_count", "decay_step_size", "cycle_momentum", "cycle_min_mom", "cycle_max_mom", "decay_mom_rate"},
	} {
		for _, name := range names {
			ks[name] = custom("refused: a parameter of "+of, func(r *reader, k key) {
				r.fail(k, "is a parameter of %s, not of this scheduler. try: remove the key", of)
			})
		}
	}
	return ks
}
