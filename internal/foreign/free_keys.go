package foreign

import (
	"math"
	"strconv"
	"strings"
)

// The Free Transformer's groups, but for model.

func freeShardingKeys() keys {
	return keys{
		"use_fsdp":               checked("`parallel.strategy`: full_shard, or no_shard", boolean),
		"fsdp_sharding_strategy": fsdpKey(custom("`parallel.strategy`", shardingStrategy)),
		"fsdp_backward_prefetch": fsdpKey(backwardPrefetch()),
		"fsdp_forward_prefetch":  fsdpKey(constant("true", prefetched)),
		"fsdp_auto_wrap_policy":  fsdpKey(named(unitIsLayer, []string{"transformer_auto_wrap"}, "size_based_auto_wrap", "size_based", "size_auto_wrap")),
		"fsdp_min_num_params":    fsdpKey(noEffect(unitIsLayer)),
		"fsdp_state_dict_type":   fsdpKey(stateDict()),
		"fsdp_mixed_precision":   fsdpKey(checked("whether the three types below apply; training.bf16 always applies", boolean)),
		"fsdp_param_dtype":       mixedPrecisionKey(enum("precision.param_dtype", floats)),
		"fsdp_reduce_dtype":      mixedPrecisionKey(enum("precision.reduce_dtype", floats)),
		"fsdp_buffer_dtype":      mixedPrecisionKey(enum("precision.buffer_dtype", floats)),
		"fsdp_cpu_offload":       fsdpKey(offloadToHost("optimizer", "params")),
		"fsdp_use_orig_params":   fsdpKey(constant("true", ownNames)),
		"backend":                transport(),
	}
}

func freeTrainingKeys() keys {
	const loss = "the loss is cross-entropy plus the KL divergence above the free bits, unweighted"
	return keys{
		"batch_size":                  to("training.micro_batch_size", integer),
		"eval_batch_size":             ignored("evaluation uses the micro-batch size of training"),
		"gradient_accumulation_steps": to("training.gradient_accumulation_steps", integer),
		"learning_rate":               to("training.learning_rate", number),
		"weight_decay":                to("training.weight_decay", number),
		"beta1":                       custom("`training.betas`", beta), "beta2": custom("`training.betas`", beta),
		"grad_clip": nullable(to("training.max_grad_norm", number)), "gradient_clip_norm": nullable(to("training.max_grad_norm", number)),
		"warmup_steps":      to("training.warmup_steps", integer),
		"warmup_ratio":      to("training.warmup_ratio", number),
		"lr_scheduler_type": enum("training.lr_scheduler", map[string]string{"cosine": "cosine", "linear": "linear", "constant": "constant_with_warmup"}),
		"min_lr_ratio":      required("0", "the learning rate decays to 0"),
		"max_steps":         nullable(to("training.max_steps", integer)),
		"num_epochs":        to("training.num_train_epochs", number),
		"beta_kl":           required("1", loss), "kl_weight": required("1", loss), "kl_annealing": required("false", loss),
		"kl_annealing_steps": noEffect("read only with kl_annealing"), "initial_kl_weight": noEffect("read only with kl_annealing"), "final_kl_weight": noEffect("read only with kl_annealing"),
		"kappa_free_bits": custom("`model.inline.free_bits`, from nats to bits", freeBits), "free_bits": custom("`model.inline.free_bits`, from nats to bits", freeBits),
		"free_bits_annealing": required("false", loss), "initial_free_bits": noEffect("read only with free_bits_annealing"), "final_free_bits": noEffect("read only with free_bits_annealing"),
		"gradient_checkpointing": to("activation_checkpointing.enabled", boolean),
		"bf16":                   checked("`precision.param_dtype: bfloat16`", boolean),
		"fp16":                   custom("`precision.param_dtype: float16` with `precision.loss_scaling.kind: torch`", freeFloat16),
		"dropout":                ignored(noDropout),
		"use_fsdp":               ignored("set by distributed.use_fsdp and --mode"), "use_deepspeed": ignored("set by --mode deepspeed and DeepSpeed's JSON"),
		"fsdp_config": ignored("set by the group distributed"), "deepspeed_config": ignored("set by DeepSpeed's JSON"),
		"save_every": to("checkpoint.save_every_n_steps", integer), "save_steps": to("checkpoint.save_every_n_steps", integer),
		"eval_every": to("training.eval_every_n_steps", integer), "eval_steps": to("training.eval_every_n_steps", integer),
		"log_every": to("logging.log_every_n_steps", integer), "logging_steps": to("logging.log_every_n_steps", integer),
		"checkpoint_dir": custom("`checkpoint.dir`; with --output_dir, checkpoints go to checkpoints/ in it", checkpointDir),
		"wandb_project":  nullable(to("logging.wandb.project", textual)), "wandb_run_name": nullable(to("logging.wandb.name", textual)),
		"dataloader_num_workers": noEffect(ownPrefetch), "dataloader_pin_memory": noEffect(noGPU),
		"seed": to("training.seed", integer),
	}
}

// beta assigns AdamW's betas from beta1 and beta2, with the default for a missing one.
func beta(r *reader, k key) {
	if !r.checkValue(k, number) || k.name() == "beta2" && hasKey(r, "training", "beta1") {
		return
	}
	betas := [2]string{"0.9", "0.95"}
	for i, name := range []string{"beta1", "beta2"} {
		if b, ok := r.find("training", name); ok {
			betas[i] = b.Text
		}
	}
	r.assign(k, "training.betas", "["+betas[0]+", "+betas[1]+"]")
}

// freeBits assigns kappa, which is in nats under both names.
func freeBits(r *reader, k key) {
	if !r.checkValue(k, number) || !r.hasInlineModel() {
		return
	}
	nats, _ := k.Float()
	bits := strconv.FormatFloat(nats/math.Ln2, 'g', -1, 64)
	r.assign(k, inlineKey+"free_bits", bits)
	r.note(k, "is in nats, and becomes model.inline.free_bits "+strconv.FormatFloat(nats/math.Ln2, 'g', 4, 64))
}

// device notes a device other than cpu.
func device(r *reader, k key) {
	if enabled(k.Value) && !strings.HasPrefix(strings.ToLower(k.Text), "cpu") {
		r.note(k, "has no effect: the only device is cpu")
	}
}

func outputDir(r *reader, k key) {
	if r.checkValue(k, textual) {
		r.assign(k, "output_dir", k.Text)
	}
}

func freeDataKeys() keys {
	const made = "read only with synthetic data"
	return keys{
		"dataset_name": custom("`data.path`; synthetic data is not supported", datasetName), "dataset_config": ignored("append the configuration's name to data.path: OWNER/NAME/CONFIG"),
		"data_dir":   ignored("PyTorch files are not supported. Set data.path"),
		"max_length": to("data.sequence_length", integer), "max_seq_len": to("data.sequence_length", integer),
		"pad_to_multiple_of": ignored(notPadded), "group_by_length": ignored(notPadded),
		"tokenizer_name": nullable(to("data.tokenizer", textual)),
		"num_workers":    noEffect(ownPrefetch),
		"shuffle":        to("data.shuffle", boolean), "drop_last": to("data.drop_last", boolean), "seed": ignored("training.seed also seeds the data order"),
		"num_train_samples": noEffect(made), "num_val_samples": noEffect(made), "vocab_size": noEffect(made),
		"synthetic_vocab_size": noEffect(made), "synthetic_seq_length": noEffect(made),
	}
}

// freeFloat16 reads fp16, and refuses bf16 at the same time.
func freeFloat16(r *reader, k key) {
	if bf16, ok := r.find("training", "bf16"); ok && r.isTrue("training", "bf16") && r.isTrue("training", "fp16") {
		r.fail(k, "is true, and so is bf16 at %s. try: one of them", bf16.where)
		return
	}
	autocast(r, k)
}
