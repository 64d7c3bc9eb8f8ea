package foreign

import (
	"maps"

	"trireme/internal/conf"
)

// Reasons that several of DeepSpeed's keys give.
const (
	metricsFile = "metrics.jsonl and TensorBoard have the records"
	oneEngine   = "Trireme's own engine runs the step"
	anyRanks    = "every checkpoint loads into any number of ranks"
	oneSchedule = "units are communicated as flat buffers, in one order, while the step computes"
	ownDecision = "the gradients of a step are summed and scaled once"
	noExperts   = "no model here has experts"
	notCompiled = "nothing is compiled on a CPU"
)

func deepspeedKeys() keys {
	ks := keys{
		"train_batch_size":               readTogether("`training.global_batch_size`; any two of the three give the third, one alone means no accumulation"),
		"train_micro_batch_size_per_gpu": readTogether("`training.micro_batch_size`"),
		"gradient_accumulation_steps":    readTogether("`training.gradient_accumulation_steps`"),
		"gradient_clipping":              training(to("training.max_grad_norm", number)),
		"optimizer": group(keys{
			"type":          custom("`training.optimizer`: adamw, adam, lamb, lion, adagrad, sgd or muon; refused: others", optimizerType),
			"params":        {under: optimizerKeys(), when: isOptimizer},
			"legacy_fusion": noEffect("an optimizer has one implementation"),
		}),
		"scheduler": group(keys{
			"type":   custom("`training.lr_scheduler`: WarmupLR, WarmupDecayLR or WarmupCosineLR; refused: others", schedulerType),
			"params": {under: schedulerKeys(), when: isScheduled},
		}),
		"fp16":                               group(fp16Keys()),
		"bf16":                               group(bf16Keys()),
		"bfloat16":                           group(bf16Keys()),
		"communication_data_type":            nullable(auto(enum("precision.reduce_dtype", floats))),
		"data_types":                         group(typeKeys()),
		"zero_optimization":                  group(zeroKeys()),
		"activation_checkpointing":           group(recomputeKeys()),
		"dataloader_drop_last":               to("data.drop_last", boolean),
		"pad_to_multiple_of":                 ignored(notPadded),
		"group_by_length":                    ignored(notPadded),
		"prescale_gradients":                 ignored(ownDecision),
		"gradient_predivide_factor":          constant("1", ownDecision),
		"gradient_allreduce_op":              required("mean", "the loss is a mean over all ranks"),
		"managed_gradient_accumulation":      required("true", "a step is gradient_accumulation_steps micro-batches"),
		"sparse_gradients":                   ignored("gradients of embeddings are dense"),
		"disable_allgather":                  ignored(oneSchedule),
		"allgather_size":                     ignored(oneSchedule),
		"zero_allow_untested_optimizer":      noEffect("every optimizer works at every stage"),
		"zero_force_ds_cpu_optimizer":        noEffect("an optimizer has one implementation"),
		"checkpoint":                         group(deepspeedCheckpointKeys()),
		"load_universal_checkpoint":          noEffect(anyRanks),
		"aio":                                ignored("offloaded state is read and written in blocks of its sub-groups, with direct I/O"),
		"vocabulary_size":                    noEffect("the model's files have it"),
		"use_data_before_expert_parallelism": noEffect(noExperts),
	}
	monitorKeys(ks)
	unavailableKeys(ks)
	return ks
}

// watchKeys are what DeepSpeed prints, measures and records.
func monitorKeys(ks keys) {
	maps.Copy(ks, keys{
		"steps_per_print": nullable(auto(to("logging.log_every_n_steps", integer))),
		"tensorboard": group(keys{
			"enabled":     to("logging.tensorboard", boolean),
			"output_path": ofTensorBoard(), "job_name": ofTensorBoard(),
		}),
		"wandb":                ignored(noWandb),
		"comet":                ignored("Comet is not available; " + metricsFile),
		"csv_monitor":          ignored(metricsFile),
		"wall_clock_breakdown": ignored("a record has the time of its step, and its shares of communication and data; not of forward, backward and update"),
		"memory_breakdown":     ignored("every record has the memory of its step by category"),
		"flops_profiler":       ignored("every record has the share of the machine's peak FLOPS that was used"),
		"comms_logger":         ignored("every record has the share of communication"),
		"timers":               noEffect("every record has the throughput of its step"),
		"dump_state":           ignored("config.yaml in the output directory has the whole configuration"),
		"log_level":            ignored("there is one level"),
		"disable_python_gc":    noEffect("no Python runs"),
	})
}

// ofTensorBoard is a rule for where TensorBoard's files go, which matters with them only.
func ofTensorBoard() rule {
	const why = "TensorBoard's files go to tb in the output directory"
	return custom("no effect: "+why, func(r *reader, k key) {
		if r.isTrue("tensorboard", "enabled") && enabled(k.Value) {
			r.note(k, "has no effect: "+why)
		}
	})
}

// unavailableKeys are whole features that are not here: noted if they would change nothing of
// what is trained, refused if they would.
func unavailableKeys(ks keys) {
	const remove = "remove the key"
	maps.Copy(ks, keys{
		"autotuning":          ignored("trireme plan says which batch and strategy fit"),
		"hybrid_engine":       ignored(oneEngine),
		"graph_harvesting":    ignored(notCompiled),
		"compile":             compiled(),
		"nebula":              ignored("checkpoints go to checkpoint.dir"),
		"datastates_ckpt":     ignored("checkpoints go to checkpoint.dir"),
		"amp":                 refused("Apex mixed precision is not available", `"fp16": {"enabled": true}, or bf16`),
		"torch_autocast":      refused("autocast, which computes some operations in another type, is not available", `"bf16": {"enabled": true}`),
		"elasticity":          refused("elastic training chooses the batch by the number of ranks, and is not available", "train_batch_size"),
		"sparse_attention":    refused("sparse attention is not available", remove),
		"eigenvalue":          refused("eigenvalues steer quantized training, which is not available", remove),
		"quantize_training":   refused("quantized training is not available", remove),
		"weight_quantization": refused("quantized weights are not available", remove),
		"expert_parallel":     refused("expert parallelism is not available", remove),
		"data_efficiency":     refused("data sampling and routing by difficulty are not available; dynamic batching is training.micro_batch_tokens", remove),

		"progressive_layer_drop": refused("dropping layers is not available", remove),
		"curriculum_learning":    refused("curriculum learning is not available", remove),
		"compression_training":   refused("compression (quantization, pruning, layer reduction) is not available", remove),

		"sequence_parallel_size":               required("1", "sequences are not divided among ranks (sequence parallelism)"),
		"seq_parallel_communication_data_type": noEffect("there is no sequence parallelism"),
		"tensor_parallel":                      group(tensorParallelKeys()),
		"pipeline":                             group(pipelineKeys()),
	})
}

// compiled is a rule for the group compile. Nothing in it changes numbers; its off-loading
// would change memory.
func compiled() rule {
	return custom("no effect: "+notCompiled, func(r *reader, k key) {
		for _, e := range k.Keys {
			switch e.Name {
			case "enabled", "deepcompile", "free_activation", "offload_activation", "offload_opt_states", "offload_parameters", "autoep_non_moe":
				if enabled(e.Value) {
					r.note(key{path: k.path + "." + e.Name, where: e.Where, Value: e.Value}, "has no effect: "+notCompiled)
				}
			}
		}
	})
}

// tensorParallelKeys are of a group that asks for nothing until a size is above 1.
func tensorParallelKeys() keys {
	size := custom("must be 0 or 1: tensor parallelism is not available", func(r *reader, k key) {
		if n, err := k.Int(); !r.checkValue(k, integer) || err != nil || n < 2 {
			return
		}
		r.fail(k, "is %s: tensor parallelism, which divides matrices among ranks, is not available. try: 1, and zero_optimization.stage 3 to divide parameters", k.Text)
	})
	of := noEffect("used only with tensor parallelism")
	return keys{
		"autotp_size":     size,
		"tp":              group(keys{"tp_size": size, "tp_grain_size": of, "mpu": of, "tp_group": of}),
		"tensor_parallel": group(keys{"tp_size": size, "tp_grain_size": of, "mpu": of, "tp_group": of}),
		"dtype":           of, "tp_overlap_comm": of, "vocab_parallel_lm_head": of, "vocab_parallel_ce_backend": of, "injection_policy_tuple": of,
		"partition_config": of, "preset_model": of, "keep_module_on_host": of, "kernel_inject": of, "replace_with_kernel_inject": of,
	}
}

func pipelineKeys() keys {
	of := noEffect("used only with pipeline parallelism")
	return keys{
		"stages": custom("must be 1: pipeline parallelism is not available", func(r *reader, k key) {
			if n, err := k.Int(); err == nil && n > 1 {
				r.fail(k, "is %d: pipeline parallelism, which divides layers among ranks, is not available. try: remove the key, and zero_optimization.stage 3", n)
			}
		}),
		"activation_checkpoint_interval": ignored("activation_checkpointing.enabled and every_n_layers say which layers are recomputed"),
		"partition":                      of, "seed_layers": of, "pipe_partitioned": of, "grad_partitioned": of,
	}
}

func deepspeedCheckpointKeys() keys {
	one := noEffect("checkpoints have one format and one writer")
	return keys{
		"load_universal": noEffect(anyRanks), "tag_validation": noEffect("ranks always agree on the step of a checkpoint"),
		"use_node_local_storage": ignored("checkpoints go to one directory that all ranks share"),
		"parallel_write":         one, "writer": one, "checkpoint_serialization": one,
	}
}

func fp16Keys() keys {
	ks := keys{
		"enabled": custom("`precision.param_dtype: float16` with `precision.loss_scaling.kind: deepspeed`", func(r *reader, k key) { // halves has read it
			if !isAuto(k.Value) {
				r.checkValue(k, boolean)
			}
		}),
		"auto_cast":                     noEffect("the inputs of a model are token ids"),
		"loss_scale":                    readTogether("`precision.loss_scaling.loss_scale`; 0 is a dynamic scale"),
		"fp16_master_weights_and_grads": required("false", "masters and gradients at rest are float32"),
	}
	for theirs, of := range scaleKeys {
		ks[theirs] = readTogether("`precision.loss_scaling." + of.ours + "`")
	}
	return ks
}

func bf16Keys() keys {
	return keys{
		"enabled":                       training(custom("`precision.param_dtype: bfloat16`", bfloat16)),
		"immediate_grad_update":         noEffect("gradients are always summed as backward makes them"),
		"check_grad_overflow":           constant("true", "a step with a gradient that is not finite is always skipped"),
		"bf16_master_weights_and_grads": required("false", "masters and gradients at rest are float32"),
		"bf16_optimizer_states":         custom("true is `training.optimizer: adamw_bf16`; refused with others than AdamW", bf16State),
	}
}

// typeKeys are the group data_types.
func typeKeys() keys {
	return keys{
		"grad_accum_dtype": constant("fp32", "gradients always accumulate in float32"),
		"buffer_dtype":     nullable(enum("precision.buffer_dtype", floats)),
		"param_dtype": custom("must agree with fp16 and bf16, which give `precision.param_dtype`", func(r *reader, k key) {
			if k.Kind == conf.Null {
				return
			}
			is := "float32"
			switch {
			case r.isTrue("fp16", "enabled"):
				is = "float16"
			case r.isTrue("bf16", "enabled"), r.isTrue("bfloat16", "enabled"):
				is = "bfloat16"
			}
			if name, ok := r.choose(k, floats); ok && name != is {
				r.fail(k, "is %s, and fp16 and bf16 say %s. try: the same in both", k.Text, is)
			}
		}),
		"keep_in_fp32_modules": constant("auto", "buffers have the type of precision.buffer_dtype, float32 by default"),
	}
}

func recomputeKeys() keys {
	return keys{
		"partition_activations":           ignored("it divides activations among tensor-parallel ranks, and there are none"),
		"cpu_checkpointing":               ignored("on a CPU, host and device share one memory. activation_checkpointing.store: disk moves the inputs of layers to a file"),
		"contiguous_memory_optimization":  noEffect("activations always lie in one arena"),
		"number_checkpoints":              nullable(to("activation_checkpointing.segments", integer)),
		"synchronize_checkpoint_boundary": noEffect("there are no streams to synchronize"),
		"profile":                         ignored("every record has the time of its step"),
	}
}

// unset notes what a file leaves out and not all versions of DeepSpeed fill in alike.
func (r *reader) unset() {
	if _, ok := r.find("gradient_clipping"); !ok {
		r.notes = append(r.notes, Note{Where: r.name, Key: "gradient_clipping", Value: "(not set)",
			Effect: "means no clipping, as up to DeepSpeed 0.19.2; 0.19.3 and later clip at 1.0. Set it to choose"})
	}
}
