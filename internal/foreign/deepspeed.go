package foreign

import (
	"fmt"
	"maps"
	"slices"

	"trireme/internal/conf"
	"trireme/optim"
)

func deepspeedFormat() *format {
	return &format{
		name: DeepSpeed, owner: "DeepSpeed's",
		signs: []string{
			"zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_clipping", "fp16", "bf16", "steps_per_print",
			"wall_clock_breakdown", "optimizer.params", "scheduler.params", "zero_allow_untested_optimizer",
		},
		keys: deepspeedKeys(), read: readDeepSpeed,
	}
}

func readDeepSpeed(r *reader) {
	r.byDefault(trainerDefault,
		"training.micro_batch_size", "1", "training.gradient_accumulation_steps", "16", "training.num_train_epochs", "1",
		"training.learning_rate", "1e-5", "training.weight_decay", "0.1", "training.betas", "[0.9, 0.999]", "training.eps", "1e-8",
		"training.lr_scheduler", "linear", "training.eval_every_n_steps", "500", "training.load_best_model_at_end", "true", "training.metric_for_best_model", "eval_loss",
		"data.path", "Salesforce/wikitext/wikitext-2-raw-v1", "data.packing", "false", "data.sequence_length", "2048", "data.truncate", "true", "data.pad_to_longest", "true",
		"activation_checkpointing.enabled", "true",
		"checkpoint.save_every_n_steps", "500", "checkpoint.keep_last_n", "3", "logging.log_every_n_steps", "100",
	)
	r.modelByDefault("meta-llama/Llama-2-7b-hf", "causal_lm")
	r.byDefault(trainerDefault, "output_dir", "./output", "training.seed", "42")
	for _, name := range []string{"zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu", "fp16", "bf16", "gradient_clipping"} {
		if k, ok := r.find(name); ok {
			r.mode(k, "of DeepSpeed", "deepspeed")
			break
		}
	}
	r.deepspeed(r.doc)
}

// deepspeed reads a document of DeepSpeed's keys.
func (r *reader) deepspeed(doc conf.Value) {
	r.doc = doc
	r.byDefault(deepspeedDefault, "parallel.strategy", "no_shard")
	r.clipping()
	r.warmup()
	r.batch()
	r.float16Keys()
	r.partition()
	r.optimizer()
	r.unset()
	r.walk(doc, "", deepspeedKeys())
}

const deepspeedDefault = "DeepSpeed's default"

// clipping assigns the default: off, or the trainer's for "auto".
func (r *reader) clipping() {
	if k, ok := r.find("gradient_clipping"); ok && isAuto(k.Value) {
		r.byDefault(trainerDefault, "training.max_grad_norm", "1.0")
		return
	}
	r.byDefault(deepspeedDefault, "training.max_grad_norm", "0.0")
}

// warmup assigns the default of the scheduler or else of the trainer.
func (r *reader) warmup() {
	k, given := r.find("scheduler", "params", "warmup_num_steps")
	_, scheduled := r.find("scheduler", "type")
	switch {
	case given && !isAuto(k.Value):
	case scheduled && !given:
		r.byDefault(deepspeedDefault, "training.warmup_steps", "1000")
	default:
		r.byDefault(trainerDefault, "training.warmup_ratio", "0.1")
	}
	peak, _ := r.find("scheduler", "params", "warmup_max_lr")
	rate := peak.Text
	if r.decaysFromOwn() {
		rate = "0.001" // WarmupDecayLR's default, which overrides the optimizer's rate
		r.byDefault(deepspeedDefault, "training.learning_rate", rate)
	}
	if r.isCosine() {
		r.byDefault(deepspeedDefault, "training.min_lr_ratio", "0.0001")
	}
	lr, also := r.find("optimizer", "params", "lr")
	if rate != "" && also && !isAuto(peak.Value) && !isAuto(lr.Value) && !sameText(lr.Value, rate) {
		r.note(lr, "has no effect: the scheduler sets the rate, with warmup_max_lr "+rate)
	}
}

// float16Keys reads fp16: float16 parameters and communication, with a loss scaler. It refuses bf16 at
// the same time.
func (r *reader) float16Keys() {
	fp16, hasFP16 := r.find("fp16", "enabled")
	bf16, hasBF16 := r.find("bf16", "enabled")
	if !hasBF16 {
		bf16, hasBF16 = r.find("bfloat16", "enabled") // the former name
	}
	if on, _ := bf16.Bool(); hasFP16 && hasBF16 && r.isTrue("fp16", "enabled") && on {
		r.fail(bf16, "is true, and so is fp16.enabled at %s. try: one of them", fp16.where)
		return
	}
	if !hasFP16 || !r.isTrue("fp16", "enabled") {
		return
	}
	r.float16(fp16, optim.DeepSpeedScaler)
	if _, ok := r.find("communication_data_type"); !ok {
		r.assign(fp16, "precision.reduce_dtype", "float16")
	}
	for _, name := range slices.Sorted(maps.Keys(scaleKeys)) {
		of := scaleKeys[name]
		if k, ok := r.find("fp16", name); ok && !isAuto(k.Value) && k.Kind != conf.Null && r.checkValue(k, of.right) {
			r.assign(k, "precision.loss_scaling."+of.ours, k.Text)
		}
	}
	if k, ok := r.find("fp16", "loss_scale"); ok && enabled(k.Value) && r.checkValue(k, number) { // 0 is a dynamic scale
		if v, err := k.Float(); err == nil && v != 0 {
			r.assign(k, "precision.loss_scaling.kind", string(optim.StaticScaler))
			r.assign(k, "precision.loss_scaling.loss_scale", k.Text)
		}
	}
}

// scaleKeys are the keys of fp16 for a dynamic loss scale, with this program's.
var scaleKeys = map[string]struct {
	ours  string
	right check
}{
	"initial_scale_power": {"initial_scale_power", integer}, "loss_scale_window": {"growth_interval", integer}, "hysteresis": {"hysteresis", integer},
	"consecutive_hysteresis": {"consecutive_hysteresis", boolean}, "min_loss_scale": {"min_scale", number},
}

// float16 assigns float16 with a loss scaler.
func (r *reader) float16(k key, kind optim.ScalerKind) {
	r.assign(k, "precision.param_dtype", "float16")
	r.assign(k, "precision.loss_scaling.kind", string(kind))
}

var stages = map[string]string{"0": "no_shard", "1": "zero_1", "2": "shard_grad_op", "3": "full_shard"}

// partition reads the stage and the size of shard groups.
func (r *reader) partition() {
	k, ok := r.find("zero_optimization", "stage")
	if !ok || !r.checkValue(k, integer) {
		return
	}
	n, _ := k.Int()
	name, known := stages[fmt.Sprint(n)]
	if !known {
		r.fail(k, "%d is not one of 0, 1, 2, 3", n)
		return
	}
	r.assign(k, "parallel.strategy", name)
	group, ok := r.find("zero_optimization", "mics_shard_size")
	if size, err := group.Int(); ok && err == nil && size > 0 {
		if n != 3 {
			r.fail(group, "is %d, but stage is %d: shard groups need stage 3. try: -1, or stage 3", size, n)
			return
		}
		r.assign(group, "parallel.strategy", "hybrid_shard")
		r.assign(group, "parallel.mesh.shard", group.Text)
	}
}

// training is a rule for a training argument, which no other source may contradict.
func training(of rule) rule {
	return auto(custom(of.doc, func(r *reader, k key) {
		before := len(r.assigned)
		of.apply(r, k)
		for _, a := range r.assigned[before:] {
			r.fixed = append(r.fixed, Fixed{a, k.path})
		}
	}))
}

// bfloat16 reads bf16.enabled: bfloat16 parameters and communication.
func bfloat16(r *reader, k key) {
	if !r.checkValue(k, boolean) {
		return
	}
	name := "float32"
	if on, _ := k.Bool(); on {
		name = "bfloat16"
	} else if r.isTrue("fp16", "enabled") {
		return // float16Keys has read it
	}
	r.assign(k, "precision.param_dtype", name)
	if _, ok := r.find("communication_data_type"); !ok {
		r.assign(k, "precision.reduce_dtype", name)
	}
}
