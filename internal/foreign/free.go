package foreign

import (
	"strings"

	"trireme/internal/conf"
)

// inlineKey is the prefix of keys of config.json in the configuration.
const inlineKey = "model.inline."

// freeFormat is the YAML of the trainers of the Free Transformer and its baseline.
func freeFormat() *format {
	return &format{
		name: FreeTransformer, owner: "the Free Transformer's", flat: true,
		signs: []string{
			"model.hidden_dim", "model.num_layers", "model.num_heads", "model.latent_dim", "distributed.use_fsdp", "distributed.fsdp_*",
			"training.gradient_checkpointing", "training.bf16", "training.gradient_clip_norm", "training.grad_clip", "training.kappa_free_bits", "training.beta_kl",
		},
		keys: keys{
			"model":       group(freeModelKeys()),
			"training":    group(freeTrainingKeys()),
			"distributed": group(freeShardingKeys()),
			"data":        group(freeDataKeys()),
			"optimizer": group(keys{
				"type":  required("adamw", "the only optimizer of this file's trainer. For others set training.optimizer"),
				"betas": numbers("training.betas", 2), "eps": to("training.eps", number), "weight_decay": to("training.weight_decay", number),
			}),
			"logging": group(keys{
				"output_dir": custom("`output_dir`", outputDir), "logging_dir": ignored("logs go to logs/ in the output directory"),
				"use_tensorboard": to("logging.tensorboard", boolean), "use_wandb": useWandB(""), "wandb_project": nullable(to("logging.wandb.project", textual)),
				"wandb_run_name": nullable(to("logging.wandb.name", textual)), "wandb_tags": nullable(texts("logging.wandb.tags")),
				"log_level": constant("info", "there is one log level"), "disable_tqdm": noEffect("terminals get a live view, files get lines"),
			}),
			"environment": group(keys{
				"seed": to("training.seed", integer), "device": custom("no effect: the only device is cpu", device),
				"cuda_deterministic": noEffect(sameBits), "cuda_benchmark": noEffect(noGPU), "empty_cache_steps": noEffect(noGPU),
			}),
		},
		read: readFree,
	}
}

func readFree(r *reader) {
	r.byDefault(trainerDefault,
		"training.micro_batch_size", "64", "training.gradient_accumulation_steps", "1", "training.learning_rate", "3e-4",
		"training.lr_scheduler", "cosine", "training.weight_decay", "0.1", "training.betas", "[0.9, 0.95]", "training.eps", "1e-8",
		"training.max_grad_norm", "1.0", "training.seed", "42", "data.truncate", "true", "data.sequence_length", r.freeLength(),
		"parallel.strategy", modeStrategies[r.options.Mode],
	)
	if !r.hasLength() {
		r.byDefault(trainerDefault, "training.max_steps", "100000")
	}
	if _, warm := r.find("training", "warmup_ratio"); !warm {
		r.byDefault(trainerDefault, "training.warmup_steps", "2000")
	}
	r.precision()
	r.readFreeModel()
	k, there := r.find("distributed", "use_fsdp")
	switch {
	case !there:
	case r.isTrue("distributed", "use_fsdp"):
		if _, named := r.find("distributed", "fsdp_sharding_strategy"); !named {
			r.mode(k, "FSDP", "fsdp")
			r.byDefault(trainerDefault, "parallel.strategy", "full_shard")
		}
	default:
		r.mode(k, "no sharding", "ddp")
		r.assign(k, "parallel.strategy", "no_shard")
	}
	r.walk(r.doc, "", r.format.keys)
}

// modeStrategies are the strategies of --mode. Without --mode it is one process, or DDP of several.
var modeStrategies = map[string]string{"": "no_shard", "ddp": "no_shard", "fsdp": "full_shard", "deepspeed": "full_shard"}

// freeLength returns the default sequence length, the model's maximum.
func (r *reader) freeLength() string {
	if k, ok := r.find("model", "max_seq_len"); ok && integer(k.Value) == nil {
		return k.Text
	}
	return "2048"
}

// hasLength reports whether the file sets the number of steps or epochs.
func (r *reader) hasLength() bool {
	for _, name := range []string{"max_steps", "num_epochs"} {
		if k, ok := r.find("training", name); ok && k.Kind != conf.Null {
			return true
		}
	}
	return false
}

// precision reads training.bf16. FSDP's types override it.
func (r *reader) precision() {
	bf16, _ := r.find("training", "bf16")
	if !r.isTrue("training", "bf16") {
		return
	}
	param, typed := r.find("distributed", "fsdp_param_dtype")
	if typed && r.usesFSDP() && r.mixes() && floats[strings.ToLower(param.Text)] == "float32" {
		r.fail(bf16, "is true, but %s at %s is %s. try: one of them", param.path, param.where, param.Text)
		return
	}
	r.assign(bf16, "precision.param_dtype", "bfloat16")
}

// usesFSDP reports whether use_fsdp is true, the default.
func (r *reader) usesFSDP() bool {
	return !hasKey(r, "distributed", "use_fsdp") || r.isTrue("distributed", "use_fsdp")
}

// mixes reports whether fsdp_mixed_precision is true, the default.
func (r *reader) mixes() bool {
	return !hasKey(r, "distributed", "fsdp_mixed_precision") || r.isTrue("distributed", "fsdp_mixed_precision")
}

// fsdpKey is a rule for a key that applies with FSDP only.
func fsdpKey(of rule) rule {
	return custom(of.doc, func(r *reader, k key) {
		if !r.usesFSDP() {
			r.note(k, "has no effect: use_fsdp is false")
			return
		}
		of.apply(r, k)
	})
}

// mixedPrecisionKey is a rule for a key that applies with FSDP's mixed precision only.
func mixedPrecisionKey(of rule) rule {
	return fsdpKey(custom(of.doc, func(r *reader, k key) {
		if !r.mixes() {
			r.note(k, "has no effect: fsdp_mixed_precision is false")
			return
		}
		of.apply(r, k)
	}))
}
