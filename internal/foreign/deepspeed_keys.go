package foreign

import (
	"maps"

	"trireme/internal/conf"
)

// Reasons for several keys.
const (
	oneEngine   = "Trireme has its own engine"
	anyRanks    = "every checkpoint loads on any number of ranks"
	oneSchedule = "communication is per unit, in flat buffers, and overlaps computation"
	ownDecision = "gradients are summed and then scaled once"
	noExperts   = "mixture-of-experts models are not supported"
	notCompiled = "nothing is compiled"
)

func deepspeedKeys() keys {
	ks := keys{
		"train_batch_size":               readTogether("`training.global_batch_size`; any two batch sizes give the third; one alone means no accumulation"),
		"train_micro_batch_size_per_gpu": readTogether("`training.micro_batch_size`"),
		"gradient_accumulation_steps":    readTogether("`training.gradient_accumulation_steps`"),
		"gradient_clipping":              training(to("training.max_grad_norm", number)),
		"optimizer": group(keys{
			"type":          custom("`training.optimizer`: adamw, adam, lamb, lion, adagrad, sgd or muon; refused: others", optimizerType),
			"params":        {under: optimizerKeys(), when: isOptimizer},
			"legacy_fusion": noEffect("each optimizer has one implementation"),
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
		"gradient_allreduce_op":              required("mean", "the loss is the mean over all ranks"),
		"managed_gradient_accumulation":      required("true", "gradients accumulate over gradient_accumulation_steps micro-batches"),
		"sparse_gradients":                   ignored("embedding gradients are dense"),
		"disable_allgather":                  ignored(oneSchedule),
		"allgather_size":                     ignored(oneSchedule),
		"zero_allow_untested_optimizer":      noEffect("all optimizers support all stages"),
		"zero_force_ds_cpu_optimizer":        noEffect("each optimizer has one implementation"),
		"checkpoint":                         group(deepspeedCheckpointKeys()),
		"load_universal_checkpoint":          noEffect(anyRanks),
		"aio":                                ignored("offloaded state uses direct I/O in blocks of sub-groups"),
		"vocabulary_size":                    noEffect("the model defines it"),
		"use_data_before_expert_parallelism": noEffect(noExperts),
	}
	monitorKeys(ks)
	unavailableKeys(ks)
	return ks
}

func monitorKeys(ks keys) {
	maps.Copy(ks, keys{
		"steps_per_print": nullable(auto(to("logging.log_every_n_steps", integer))),
		"tensorboard": group(keys{
			"enabled":     to("logging.tensorboard", boolean),
			"output_path": pathOf("tensorboard", "TensorBoard files go to tb/ in the output directory"),
			"job_name":    pathOf("tensorboard", "TensorBoard files go to tb/ in the output directory"),
		}),
		"csv_monitor": group(keys{
			"enabled":     to("logging.csv", boolean),
			"output_path": pathOf("csv_monitor", "CSV files go to csv/ in the output directory"),
			"job_name":    pathOf("csv_monitor", "CSV files go to csv/ in the output directory"),
		}),
		"wandb": group(keys{
			"enabled": useWandB("deepspeed"),
			"project": nullable(to("logging.wandb.project", textual)),
			"team":    nullable(to("logging.wandb.entity", textual)),
			"group":   nullable(to("logging.wandb.group", textual)),
		}),
		"comet":                ignored("there is no Comet here; logging has tensorboard, wandb, mlflow, trackio and csv"),
		"wall_clock_breakdown": to("logging.wall_clock_breakdown", boolean),
		"comms_logger": group(keys{
			"enabled":  to("logging.comms_table", boolean),
			"verbose":  ignored("a trace has each operation: trireme train --trace steps=A-B"),
			"prof_all": noEffect("the table has all operations"), "prof_ops": ignored("the table has all operations"), "debug": noEffect("units name the operations"),
		}),
		"flops_profiler": group(keys{
			"enabled":      custom("`logging.flops_profile_step`, of profile_step", flopsProfiler),
			"profile_step": readTogether("`logging.flops_profile_step`, if enabled"),
			"module_depth": noEffect("the profile is one line: the model's FLOPs, and the time of forward, backward, recomputation and optimizer"), "top_modules": noEffect("the profile is one line: the model's FLOPs, and the time of forward, backward, recomputation and optimizer"),
			"detailed": noEffect("the profile is one line: the model's FLOPs, and the time of forward, backward, recomputation and optimizer"), "recompute_fwd_factor": noEffect("the profile has the time of recomputation and does not count its FLOPs"),
			"output_file": ignored("the profile is printed"),
		}),
		"memory_breakdown":  ignored("records have memory by category"),
		"timers":            noEffect("records have the throughput"),
		"dump_state":        ignored("config.yaml in the output directory is the full configuration"),
		"log_level":         ignored("there is one log level"),
		"disable_python_gc": noEffect("no Python runs"),
	})
}

// pathOf is a rule for the path of a monitor's files, noted only if the monitor is enabled.
func pathOf(monitor, why string) rule {
	return custom("no effect: "+why, func(r *reader, k key) {
		if r.isTrue(monitor, "enabled") && enabled(k.Value) {
			r.note(k, "has no effect: "+why)
		}
	})
}

// flopsProfiler assigns the step to profile, by default DeepSpeed's.
func flopsProfiler(r *reader, k key) {
	if on, _ := k.Bool(); !r.checkValue(k, boolean) || !on {
		return
	}
	step, ok := r.find("flops_profiler", "profile_step")
	switch {
	case !ok:
		r.assign(k, "logging.flops_profile_step", "1")
	case r.checkValue(step, integer):
		r.assign(step, "logging.flops_profile_step", step.Text)
	}
}

// asyncWriter is a rule for the settings of a library that writes checkpoints in the background.
func asyncWriter() rule {
	return custom("`checkpoint.async: true` if it is enabled; its settings have no effect", func(r *reader, k key) {
		if enabled(k.Value) {
			r.assign(k, "checkpoint.async", "true")
		}
	})
}

// unavailableKeys adds unsupported features: noted if they do not change training, else refused.
func unavailableKeys(ks keys) {
	const remove = "remove the key"
	maps.Copy(ks, keys{
		"autotuning":          ignored("trireme plan recommends a batch size and a strategy"),
		"hybrid_engine":       ignored(oneEngine),
		"graph_harvesting":    ignored(notCompiled),
		"compile":             compiled(),
		"nebula":              asyncWriter(),
		"datastates_ckpt":     asyncWriter(),
		"amp":                 refused("Apex mixed precision is not supported", `"fp16": {"enabled": true}, or bf16`),
		"torch_autocast":      refused("autocast is not supported", `"bf16": {"enabled": true}`),
		"elasticity":          refused("elastic training is not supported", "train_batch_size"),
		"sparse_attention":    refused("sparse attention is not supported", remove),
		"eigenvalue":          refused("quantized training is not supported", remove),
		"quantize_training":   refused("quantized training is not supported", remove),
		"weight_quantization": refused("quantized weights are not supported", remove),
		"expert_parallel":     refused("expert parallelism is not supported", remove),
		"data_efficiency":     refused("curriculum data sampling and routing are not supported; for dynamic batching set training.micro_batch_tokens", remove),

		"progressive_layer_drop": refused("progressive layer drop is not supported", remove),
		"curriculum_learning":    refused("curriculum learning is not supported", remove),
		"compression_training":   refused("compression (quantization, pruning, layer reduction) is not supported", remove),

		"sequence_parallel_size":               required("1", "sequence parallelism is not supported"),
		"seq_parallel_communication_data_type": noEffect("read only with sequence parallelism"),
		"tensor_parallel":                      group(tensorParallelKeys()),
		"pipeline":                             group(pipelineKeys()),
	})
}

// compiled is the rule for the group compile, which does not change numbers; its offloading would change
// memory.
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

// tensorParallelKeys are the keys of tensor_parallel, which has an effect only with a size above 1.
func tensorParallelKeys() keys {
	size := custom("must be 0 or 1: tensor parallelism is not supported", func(r *reader, k key) {
		if n, err := k.Int(); !r.checkValue(k, integer) || err != nil || n < 2 {
			return
		}
		r.fail(k, "is %s: tensor parallelism is not supported. try: 1, and zero_optimization.stage 3 to shard parameters", k.Text)
	})
	of := noEffect("read only with tensor parallelism")
	return keys{
		"autotp_size":     size,
		"tp":              group(keys{"tp_size": size, "tp_grain_size": of, "mpu": of, "tp_group": of}),
		"tensor_parallel": group(keys{"tp_size": size, "tp_grain_size": of, "mpu": of, "tp_group": of}),
		"dtype":           of, "tp_overlap_comm": of, "vocab_parallel_lm_head": of, "vocab_parallel_ce_backend": of, "injection_policy_tuple": of,
		"partition_config": of, "preset_model": of, "keep_module_on_host": of, "kernel_inject": of, "replace_with_kernel_inject": of,
	}
}

func pipelineKeys() keys {
	of := noEffect("read only with pipeline parallelism")
	return keys{
		"stages": custom("must be 1: pipeline parallelism is not supported", func(r *reader, k key) {
			if n, err := k.Int(); err == nil && n > 1 {
				r.fail(k, "is %d: pipeline parallelism is not supported. try: remove the key, and zero_optimization.stage 3", n)
			}
		}),
		"activation_checkpoint_interval": ignored("see activation_checkpointing.every_n_layers"),
		"partition":                      of, "seed_layers": of, "pipe_partitioned": of, "grad_partitioned": of,
	}
}

func deepspeedCheckpointKeys() keys {
	one := noEffect("there is one checkpoint format and writer")
	return keys{
		"load_universal": noEffect(anyRanks), "tag_validation": noEffect("ranks always compare the checkpoint's step"),
		"use_node_local_storage": ignored("all ranks share one checkpoint directory"),
		"parallel_write":         one, "writer": one, "checkpoint_serialization": one,
	}
}

func fp16Keys() keys {
	ks := keys{
		"enabled": custom("`precision.param_dtype: float16` with `precision.loss_scaling.kind: deepspeed`", func(r *reader, k key) { // read by float16Keys
			if !isAuto(k.Value) {
				r.checkValue(k, boolean)
			}
		}),
		"auto_cast":                     noEffect("model inputs are token ids"),
		"loss_scale":                    readTogether("`precision.loss_scaling.loss_scale`; 0 is a dynamic scale"),
		"fp16_master_weights_and_grads": required("false", "master weights and accumulated gradients are float32"),
	}
	for theirs, of := range scaleKeys {
		ks[theirs] = readTogether("`precision.loss_scaling." + of.ours + "`")
	}
	return ks
}

func bf16Keys() keys {
	return keys{
		"enabled":                       training(custom("`precision.param_dtype: bfloat16`", bfloat16)),
		"immediate_grad_update":         noEffect("gradients are always accumulated during backward"),
		"check_grad_overflow":           constant("true", "a step with non-finite gradients is always skipped"),
		"bf16_master_weights_and_grads": required("false", "master weights and accumulated gradients are float32"),
		"bf16_optimizer_states":         custom("true: `training.optimizer: adamw_bf16`; refused with optimizers other than AdamW", bf16State),
	}
}

func typeKeys() keys {
	return keys{
		"grad_accum_dtype": constant("fp32", "gradients always accumulate in float32"),
		"buffer_dtype":     nullable(enum("precision.buffer_dtype", floats)),
		"param_dtype": custom("must agree with fp16 and bf16, which set `precision.param_dtype`", func(r *reader, k key) {
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
				r.fail(k, "is %s, but fp16 and bf16 set %s. try: the same type in both", k.Text, is)
			}
		}),
		"keep_in_fp32_modules": constant("auto", "precision.buffer_dtype sets the type of buffers"),
	}
}

func recomputeKeys() keys {
	return keys{
		"partition_activations":           ignored("it needs tensor parallelism, which is not supported"),
		"cpu_checkpointing":               ignored("host and device share memory on a CPU. activation_checkpointing.store: disk moves layer inputs to a file"),
		"contiguous_memory_optimization":  noEffect("activations are always in one arena"),
		"number_checkpoints":              nullable(to("activation_checkpointing.segments", integer)),
		"synchronize_checkpoint_boundary": noEffect("there are no device streams"),
		"profile":                         ignored("records have the time of each step"),
	}
}

// unset notes missing keys whose default differs between versions of DeepSpeed.
func (r *reader) unset() {
	if _, ok := r.find("gradient_clipping"); !ok {
		r.notes = append(r.notes, Note{Where: r.name, Key: "gradient_clipping", Value: "(not set)",
			Effect: "means no clipping, as in DeepSpeed up to 0.19.2; since 0.19.3 the default is 1.0. Set it explicitly"})
	}
	for _, group := range []string{"optimizer", "scheduler"} {
		_, typed := r.find(group, "type")
		if k, ok := r.find(group, "params"); ok && !typed && len(k.Keys) > 0 {
			r.note(k, "has an effect here, although DeepSpeed ignores it without "+group+".type")
		}
	}
}
