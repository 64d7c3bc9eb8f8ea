package foreign

import "strings"

func accelerateKeys() keys {
	const (
		launcher = "the launcher sets it"
		tpu      = "TPUs only"
		none     = "mixed_precision fp8 is not supported"
	)
	ks := keys{
		"compute_environment":         required("LOCAL_MACHINE", "SageMaker is not supported"),
		"debug":                       noEffect("ranks always check that their collectives match"),
		"distributed_type":            readTogether("`parallel.strategy`: MULTI_* is no_shard; refused: MEGATRON_LM, XLA"),
		"num_processes":               nullable(checked("the number of ranks, unless the command line gives it", integer)),
		"num_machines":                nullable(checked("must be 1, unless another launcher starts the ranks", integer)),
		"mixed_precision":             readTogether("`precision.param_dtype`; with FSDP also `reduce_dtype` and `buffer_dtype`, with DeepSpeed also `reduce_dtype`; no effect with a deepspeed_config_file; refused: fp8"),
		"fp16":                        checked("`precision.param_dtype: float16` (older files)", boolean),
		"gradient_accumulation_steps": auto(to("training.gradient_accumulation_steps", integer)),

		"machine_rank": ignored(launcher), "main_process_ip": ignored(launcher), "main_process_port": ignored(launcher), "same_network": noEffect(launcher),
		"rdzv_backend": constant("static", launcher), "mpirun_config": ignored(launcher),
		"enable_cpu_affinity": ignored("device.numa binds processes"), "gpu_ids": constant("all", "CUDA_VISIBLE_DEVICES selects GPUs"),
		"main_training_function": constant("main", "no Python runs"), "use_cpu": custom("`device.name: cpu` if true", useCPU),

		"downcast_bf16": ignored(tpu), "tpu_env": ignored(tpu), "tpu_name": ignored(tpu), "tpu_zone": ignored(tpu), "tpu_use_cluster": ignored(tpu), "tpu_use_sudo": ignored(tpu),
		"tpu_vm": ignored(tpu), "commands": ignored(tpu), "command_file": ignored(tpu), "ipex_config": ignored("PyTorch only"),
		"dynamo_backend": ignored(notCompiled), "dynamo_config": group(dynamoKeys()),
		"megatron_lm_config": noEffect("read only with distributed_type MEGATRON_LM"), "fp8_config": noEffect(none),

		"fsdp_config":        {under: accelerateFSDPKeys(), when: ofKind("FSDP")},
		"deepspeed_config":   {under: accelerateDeepSpeedKeys(), when: ofKind("DEEPSPEED")},
		"parallelism_config": group(accelerateMeshKeys()),
	}
	return ks
}

// useCPU sets the device. false leaves it to the rest of the configuration: a file does not say which GPUs the
// machine has.
func useCPU(r *reader, k key) {
	if r.checkValue(k, boolean) && enabled(k.Value) {
		r.assign(k, "device.name", "cpu")
	}
}

// ofKind returns a condition for a group that Accelerate reads only with one distributed_type.
func ofKind(kind string) func(*reader, key) bool {
	return func(r *reader, k key) bool {
		is, ok := r.find("distributed_type")
		if ok && strings.EqualFold(is.Text, kind) {
			return true
		}
		if len(k.Keys) > 0 {
			r.note(k, "has no effect: distributed_type is "+is.Text)
		}
		return false
	}
}

// dynamoKeys are the keys of torch.compile, which does not change numbers.
func dynamoKeys() keys {
	of := noEffect("read only with dynamo_backend")
	return keys{
		"dynamo_backend": ignored(notCompiled),
		"dynamo_mode":    of, "dynamo_use_dynamic": of, "dynamo_use_fullgraph": of, "dynamo_use_regional_compilation": of,
	}
}

func accelerateMeshKeys() keys {
	const (
		context  = "read only with context parallelism"
		sequence = "read only with sequence parallelism"
	)
	ks := keys{
		"dp_replicate_size": checked("`parallel.strategy: hybrid_shard`, `parallel.mesh.replicate`", integer),
		"dp_shard_size":     checked("`parallel.mesh.shard`", integer),
		"tp_size":           required("1", "tensor parallelism is not supported"),
		"cp_size":           required("1", "context parallelism is not supported"),
		"sp_size":           required("1", "sequence parallelism is not supported"),
		"ep_size":           required("1", noExperts),
		"cp_backend":        noEffect(context), "cp_comm_strategy": noEffect(context),
		"sp_backend": noEffect(sequence), "sp_seq_length": noEffect(sequence), "sp_seq_length_is_variable": noEffect(sequence), "sp_attn_implementation": noEffect(sequence),
	}
	out := keys{}
	for name, of := range ks {
		out["parallelism_config_"+name] = of
	}
	return out
}

func accelerateFSDPKeys() keys {
	return keys{
		"fsdp_version":                          custom("no effect: 1 and 2 select the same engine", func(r *reader, k key) { r.choose(k, map[string]string{"1": "", "2": ""}) }),
		"fsdp_sharding_strategy":                readTogether("`parallel.strategy`, by name or number"),
		"fsdp_reshard_after_forward":            readTogether("`parallel.reshard_after_forward`; a strategy's name is `parallel.strategy`"),
		"fsdp_offload_params":                   nullable(offloadToHost("optimizer", "params")),
		"fsdp_auto_wrap_policy":                 named(unitIsLayer, []string{"TRANSFORMER_BASED_WRAP", "NO_WRAP"}, "SIZE_BASED_WRAP"),
		"fsdp_transformer_layer_cls_to_wrap":    custom("must be the model's layer class; each layer is a unit", layerClasses),
		"fsdp_min_num_params":                   noEffect(unitIsLayer),
		"fsdp_backward_prefetch":                backwardPrefetch(),
		"fsdp_backward_prefetch_policy":         backwardPrefetch(),
		"fsdp_forward_prefetch":                 noEffect(prefetched),
		"fsdp_state_dict_type":                  stateDict(),
		"fsdp_use_orig_params":                  constant("true", ownNames),
		"fsdp_sync_module_states":               constant("true", sameInitial),
		"fsdp_cpu_ram_efficient_loading":        constant("true", "each rank reads only its shard"),
		"fsdp_activation_checkpointing":         to("activation_checkpointing.enabled", boolean),
		"fsdp_activation_checkpointing_offload": ignored(sharedMemory + ". activation_checkpointing.store: disk moves layer inputs to a file"),
		"fsdp_ignored_modules":                  ignored("every unit is sharded"),
	}
}

func accelerateDeepSpeedKeys() keys {
	const launcher = "the launcher sets it"
	return keys{
		"deepspeed_config_file":       readTogether("DeepSpeed's JSON, which overrules the keys below; a relative path is from the working directory, or else from this file's"),
		"zero_stage":                  readTogether("`parallel.strategy`: no_shard, zero_1, shard_grad_op, full_shard"),
		"gradient_accumulation_steps": auto(to("training.gradient_accumulation_steps", integer)),
		"gradient_clipping":           auto(to("training.max_grad_norm", number)),
		"offload_optimizer_device":    offloadDevice("optimizer"), "offload_param_device": offloadDevice("params"),
		"offload_optimizer_nvme_path": nullable(to("offload.optimizer.path", textual)), "offload_param_nvme_path": nullable(to("offload.params.path", textual)),
		"zero3_init_flag":               noEffect("a rank only ever allocates its shard"),
		"zero3_save_16bit_model":        exportsComputeDType(),
		"deepspeed_multinode_launcher":  constant("standard", launcher),
		"deepspeed_hostfile":            ignored(launcher),
		"deepspeed_inclusion_filter":    ignored(launcher),
		"deepspeed_exclusion_filter":    ignored(launcher),
		"deepspeed_moe_layer_cls_names": ignored(noExperts),
	}
}
