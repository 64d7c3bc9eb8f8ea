package foreign

import (
	"math"
	"strconv"
)

// The Free Transformer's groups, but for model.

func freeShardingKeys() keys {
	return keys{
		"use_fsdp":               {apply: func(r *reader, k key) { r.right(k, boolean) }}, // readFree has read it
		"fsdp_sharding_strategy": sharded(rule{apply: shardingStrategy}),
		"fsdp_backward_prefetch": sharded(backwardPrefetch()),
		"fsdp_forward_prefetch":  sharded(only("true", hostAhead)),
		"fsdp_auto_wrap_policy":  sharded(wrapPolicy(map[string]string{"transformer_auto_wrap": "transformer", "size_based_auto_wrap": "size", "size_based": "size", "size_auto_wrap": "size"})),
		"fsdp_min_num_params":    sharded(minParams("distributed", "fsdp_auto_wrap_policy")),
		"fsdp_state_dict_type":   sharded(as("checkpoint.state_dict_type", stateDicts)),
		"fsdp_mixed_precision":   sharded(rule{apply: func(r *reader, k key) { r.right(k, boolean) }}), // mixed reads it
		"fsdp_param_dtype":       mixed(as("precision.param_dtype", floats)),
		"fsdp_reduce_dtype":      mixed(as("precision.reduce_dtype", floats)),
		"fsdp_buffer_dtype":      mixed(as("precision.buffer_dtype", floats)),
		"fsdp_cpu_offload":       sharded(offloadWhole("optimizer", "params")),
		"fsdp_use_orig_params":   sharded(only("true", "parameters keep their names and shapes in any case")),
		"backend":                transport(),
	}
}

func freeTrainingKeys() keys {
	const loop = "the Free Transformer's loss has no other weight here: cross-entropy, and what exceeds the free bits"
	return keys{
		"batch_size":                  to("training.micro_batch_size", whole),
		"eval_batch_size":             nothing("held-out data is read in micro-batches of training's size"),
		"gradient_accumulation_steps": to("training.gradient_accumulation_steps", whole),
		"learning_rate":               to("training.learning_rate", number),
		"weight_decay":                to("training.weight_decay", number),
		"beta1":                       {apply: beta}, "beta2": {apply: beta},
		"grad_clip": maybe(to("training.max_grad_norm", number)), "gradient_clip_norm": maybe(to("training.max_grad_norm", number)),
		"warmup_steps":      to("training.warmup_steps", whole),
		"warmup_ratio":      to("training.warmup_ratio", number),
		"lr_scheduler_type": as("training.lr_scheduler", map[string]string{"cosine": "cosine", "linear": "linear", "constant": "constant_with_warmup"}),
		"min_lr_ratio":      must("0", "the rate falls to 0 here"),
		"max_steps":         maybe(to("training.max_steps", whole)),
		"num_epochs":        to("training.num_train_epochs", number),
		"beta_kl":           must("1", loop), "kl_weight": must("1", loop), "kl_annealing": must("false", loop),
		"kl_annealing_steps": nothing("kl_annealing is false"), "initial_kl_weight": nothing("kl_annealing is false"), "final_kl_weight": nothing("kl_annealing is false"),
		"kappa_free_bits": {apply: freeBits}, "free_bits": {apply: freeBits},
		"free_bits_annealing": must("false", loop), "initial_free_bits": nothing("free_bits_annealing is false"), "final_free_bits": nothing("free_bits_annealing is false"),
		"gradient_checkpointing": to("activation_checkpointing.enabled", boolean),
		"bf16":                   {apply: func(r *reader, k key) { r.right(k, boolean) }}, // precision has read it
		"fp16":                   {apply: freeFloat16},
		"dropout":                nothing(noDropout),
		"use_fsdp":               nothing("distributed.use_fsdp and --mode say so"), "use_deepspeed": nothing("--mode deepspeed and DeepSpeed's own JSON say so"),
		"fsdp_config": nothing("the group distributed says so"), "deepspeed_config": nothing("DeepSpeed's own JSON says so"),
		"save_every": to("checkpoint.save_every_n_steps", whole), "save_steps": to("checkpoint.save_every_n_steps", whole),
		"eval_every": to("training.eval_every_n_steps", whole), "eval_steps": to("training.eval_every_n_steps", whole),
		"log_every": to("logging.log_every_n_steps", whole), "logging_steps": to("logging.log_every_n_steps", whole),
		"checkpoint_dir": {apply: checkpointDir},
		"wandb_project":  nothing(noWandb), "wandb_run_name": nothing(noWandb),
		"dataloader_num_workers": nothing("data is read ahead in any case"), "dataloader_pin_memory": nothing(noGPU),
		"seed": to("training.seed", whole),
	}
}

// beta is one of AdamW's two; the other may be silent.
func beta(r *reader, k key) {
	if !r.right(k, number) || k.name() == "beta2" && hasKey(r, "training", "beta1") {
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

// freeBits is kappa, which those files have in nats whatever the key is called.
func freeBits(r *reader, k key) {
	if !r.right(k, number) || !r.inlines() {
		return
	}
	nats, _ := k.Float()
	bits := strconv.FormatFloat(nats/math.Ln2, 'g', -1, 64)
	r.assign(k, inline+"free_bits", bits)
	r.note(k, "is in nats: "+strconv.FormatFloat(nats/math.Ln2, 'g', 4, 64)+" bits (model.inline.free_bits)", false)
}

func outputDir(r *reader, k key) {
	if r.right(k, word) {
		r.assign(k, "output_dir", k.Text)
	}
}

func freeDataKeys() keys {
	const made = "synthetic data is not made here"
	return keys{
		"dataset_name": {apply: datasetName}, "dataset_config": nothing("a data set's part follows its name: OWNER/NAME/PART"),
		"data_dir":   nothing("its files are PyTorch's. try: --set data.path=FILE"),
		"max_length": to("data.sequence_length", whole), "max_seq_len": to("data.sequence_length", whole),
		"tokenizer_name": maybe(to("data.tokenizer", word)),
		"num_workers":    nothing("data is read ahead in any case"),
		"shuffle":        to("data.shuffle", boolean), "drop_last": to("data.drop_last", boolean), "seed": nothing("training.seed orders the data too"),
		"num_train_samples": nothing(made), "num_val_samples": nothing(made), "vocab_size": nothing(made),
		"synthetic_vocab_size": nothing(made), "synthetic_seq_length": nothing(made),
	}
}

// freeFloat16 is fp16, one of two kinds of 16-bit floats.
func freeFloat16(r *reader, k key) {
	if bf16, ok := r.find("training", "bf16"); ok && r.isTrue("training", "bf16") && r.isTrue("training", "fp16") {
		r.fail(k, "is true, and bf16 at %s is too: one of them", bf16.where)
		return
	}
	autocast(r, k)
}
