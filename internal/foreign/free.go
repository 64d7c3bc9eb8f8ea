package foreign

import (
	"strings"

	"trireme/internal/conf"
)

// inline is the tree's group that stands for config.json.
const inlineKey = "model.inline."

// freeFormat is the YAML of the Free Transformer's and its baseline's trainers.
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
				"type":  required("adamw", "the trainer of this file knows no other; training.optimizer chooses among all"),
				"betas": numbers("training.betas", 2), "eps": to("training.eps", number), "weight_decay": to("training.weight_decay", number),
			}),
			"logging": group(keys{
				"output_dir": custom("`output_dir`", outputDir), "logging_dir": ignored("logs go to logs in the output directory"),
				"use_tensorboard": to("logging.tensorboard", boolean), "use_wandb": ignored(noWandb), "wandb_project": ofWandb(),
				"wandb_run_name": ofWandb(), "wandb_tags": ofWandb(),
				"log_level": constant("info", "there is one level"), "disable_tqdm": noEffect("a terminal gets a live view, a file gets lines"),
			}),
			"environment": group(keys{
				"seed": to("training.seed", integer), "device": custom("no effect: device.name is cpu, the only device", device),
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

// presets are the strategies of --mode; none is one process, and DDP of several.
var modeStrategies = map[string]string{"": "no_shard", "ddp": "no_shard", "fsdp": "full_shard", "deepspeed": "full_shard"}

// freeLength is the positions of a row where the group data does not say: the model's most.
func (r *reader) freeLength() string {
	if k, ok := r.find("model", "max_seq_len"); ok && integer(k.Value) == nil {
		return k.Text
	}
	return "2048"
}

// saysLength says that the file gives the run's length.
func (r *reader) hasLength() bool {
	for _, name := range []string{"max_steps", "num_epochs"} {
		if k, ok := r.find("training", name); ok && k.Kind != conf.Null {
			return true
		}
	}
	return false
}

// precision is what training.bf16 comes to beside FSDP's types, which decide where they hold.
func (r *reader) precision() {
	bf16, _ := r.find("training", "bf16")
	if !r.isTrue("training", "bf16") {
		return
	}
	param, typed := r.find("distributed", "fsdp_param_dtype")
	if typed && r.usesFSDP() && r.mixes() && floats[strings.ToLower(param.Text)] == "float32" {
		r.fail(bf16, "is true, and %s at %s is %s: one of them", param.path, param.where, param.Text)
		return
	}
	r.assign(bf16, "precision.param_dtype", "bfloat16")
}

// usesFSDP is so unless the file says otherwise.
func (r *reader) usesFSDP() bool {
	return !hasKey(r, "distributed", "use_fsdp") || r.isTrue("distributed", "use_fsdp")
}

// mixes says that FSDP's types hold: so unless the file says otherwise.
func (r *reader) mixes() bool {
	return !hasKey(r, "distributed", "fsdp_mixed_precision") || r.isTrue("distributed", "fsdp_mixed_precision")
}

// sharded is a rule for a key that holds with FSDP only.
func fsdpKey(of rule) rule {
	return custom(of.doc, func(r *reader, k key) {
		if !r.usesFSDP() {
			r.note(k, "has no effect: use_fsdp is false")
			return
		}
		of.apply(r, k)
	})
}

// mixed is a rule for a key that holds with FSDP's mixed precision only.
func mixedPrecisionKey(of rule) rule {
	return fsdpKey(custom(of.doc, func(r *reader, k key) {
		if !r.mixes() {
			r.note(k, "has no effect: fsdp_mixed_precision is false")
			return
		}
		of.apply(r, k)
	}))
}
