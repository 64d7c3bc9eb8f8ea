package foreign

import (
	"fmt"
	"slices"
	"strings"

	"trireme/internal/conf"
	"trireme/internal/fault"
)

// adams are DeepSpeed's names for Adam with decoupled weight decay, which is AdamW.
var adams = []string{"Adam", "AdamW", "FusedAdam", "DeepSpeedCPUAdam", "CPUAdam"}

// otherOptimizers are those that DeepSpeed has, or had, beside AdamW.
var otherOptimizers = []string{
	"Adagrad", "Lamb", "FusedLamb", "Lion", "Muon", "MuAdam", "MuAdamW", "MuSGD", "OneBitAdam", "OneBitLamb", "ZeroOneAdam", "SGD", "Adafactor", "RMSprop",
}

// optimizerType is AdamW by any of its names.
func optimizerType(r *reader, k key) {
	if !r.right(k, word) {
		return
	}
	if slices.ContainsFunc(otherOptimizers, func(name string) bool { return strings.EqualFold(name, k.Text) }) {
		r.fail(k, "%s is not available; AdamW is. try: \"type\": \"AdamW\"", k.Text)
		return
	}
	names := map[string]string{}
	for _, name := range adams {
		names[name] = ""
	}
	if _, ok := r.choose(k, names); !ok || strings.EqualFold(k.Text, "AdamW") {
		return // AdamW decays apart from the gradient whatever adam_w_mode is
	}
	decay, _ := r.find("optimizer", "params", "weight_decay")
	mode, ok := r.find("optimizer", "params", "adam_w_mode")
	if ok && !r.isTrue("optimizer", "params", "adam_w_mode") && asks(decay.Value) {
		r.fail(mode, "is %s, which adds weight_decay %s to the gradient (Adam with L2); AdamW, which is available, decays apart from it. try: true", mode.Text, decay.Text)
	}
}

// isAdam says whether the optimizer's parameters are AdamW's: with another type, that is the error.
func isAdam(r *reader, _ key) bool {
	k, ok := r.find("optimizer", "type")
	return !ok || slices.ContainsFunc(adams, func(name string) bool { return strings.EqualFold(name, k.Text) })
}

func optimizerKeys() keys {
	return keys{
		"lr": custom("`training.learning_rate`, unless the scheduler has warmup_max_lr", func(r *reader, k key) {
			if peak, ok := r.find("scheduler", "params", "warmup_max_lr"); (!ok || isAuto(peak.Value)) && !r.decaysFromOwn() {
				settled(to("training.learning_rate", number)).apply(r, k)
			}
		}),
		"betas":                 settled(numbers("training.betas", 2)),
		"eps":                   settled(to("training.eps", number)),
		"weight_decay":          settled(to("training.weight_decay", number)),
		"bias_correction":       must("true", "AdamW without the correction of its moments, which begin at zero, is not available"),
		"amsgrad":               must("false", "AMSGrad is not available"),
		"adam_w_mode":           elsewhere("must be true with Adam and weight decay: L2 in the gradient is not available"),
		"adamw_mode":            must("true", "Adam with L2 in the gradient is not available"),
		"torch_adam":            silent("AdamW has one implementation"),
		"set_grad_none":         silent("gradients are not kept between steps"),
		"fp32_optimizer_states": only("true", "the optimizer's state is float32"),
		"max_grad_norm":         must("0", "DeepSpeed clips by gradient_clipping"),
	}
}

// otherSchedules are DeepSpeed's that are not here, with what to write instead.
var otherSchedules = map[string]func(error) error{
	"OneCycle": func(err error) error {
		return fault.Try(err, `"WarmupCosineLR", or leave scheduler out and %s`, fault.Set("training.lr_scheduler", "cosine_with_restarts"))
	},
	"LRRangeTest": func(err error) error { return fault.Try(err, `"WarmupLR" in runs with several learning rates`) },
}

// schedules are DeepSpeed's that are here.
var schedules = map[string]string{"WarmupLR": "WarmupLR", "WarmupDecayLR": "WarmupDecayLR", "WarmupCosineLR": "WarmupCosineLR"}

func schedulerType(r *reader, k key) {
	for name, try := range otherSchedules {
		if k.Kind == conf.Scalar && strings.EqualFold(name, k.Text) {
			r.refuse(k, try(fmt.Errorf("%s is not available", k.Text)))
			return
		}
	}
	as("training.lr_scheduler", schedules).apply(r, k)
}

// isScheduled says whether the scheduler's parameters are of one that is here.
func isScheduled(r *reader, _ key) bool {
	k, _ := r.find("scheduler", "type")
	_, other := otherSchedules[k.Text]
	return !other
}

// decaysFromOwn says that the schedule is WarmupDecayLR without a peak, which is then its own
// default and not the optimizer's rate.
func (r *reader) decaysFromOwn() bool {
	k, _ := r.find("scheduler", "type")
	_, peak := r.find("scheduler", "params", "warmup_max_lr")
	return strings.EqualFold(k.Text, "WarmupDecayLR") && !peak
}

// isCosine says that the schedule is WarmupCosineLR, whose peak is the optimizer's rate.
func (r *reader) isCosine() bool {
	k, _ := r.find("scheduler", "type")
	return strings.EqualFold(k.Text, "WarmupCosineLR")
}

func schedulerKeys() keys {
	ks := keys{
		"warmup_num_steps":     settled(to("training.warmup_steps", whole)),
		"total_num_steps":      settled(to("training.max_steps", whole)),
		"warmup_type":          as("training.warmup_type", map[string]string{"log": "log", "linear": "linear"}),
		"last_batch_iteration": only("-1", "a resumed run continues its own schedule"),
	}
	for name, of := range map[string]rule{
		"warmup_min_lr":    settled(to("training.min_lr", number)),
		"warmup_max_lr":    settled(to("training.learning_rate", number)),
		"warmup_min_ratio": settled(to("training.warmup_min_ratio", number)),
		"cos_min_ratio":    settled(to("training.min_lr_ratio", number)),
	} {
		cosine, kinds := strings.HasSuffix(name, "_ratio"), "WarmupLR and WarmupDecayLR"
		if cosine {
			kinds = "WarmupCosineLR"
		}
		ks[name] = custom(of.says+", with "+kinds, func(r *reader, k key) {
			if r.isCosine() != cosine {
				r.fail(k, "is a parameter of %s, not of the scheduler that type names. try: remove the key", kinds)
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
				r.fail(k, "is a parameter of %s, not of the scheduler that type names. try: remove the key", of)
			})
		}
	}
	return ks
}
