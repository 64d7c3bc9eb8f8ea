package foreign

import "trireme/internal/conf"

// feature is a rule for a group of something that is not here: idle where it is not enabled.
func feature(why string) rule {
	return rule{apply: func(r *reader, k key) { r.note(k, why, !enabled(k.Value)) }}
}

// refused is a rule for a group of something that would change what is trained.
func refused(why string) rule {
	return rule{apply: func(r *reader, k key) {
		if enabled(k.Value) {
			r.fail(k, "%s", why)
			return
		}
		r.note(k, "", true)
	}}
}

// enabled tells whether a group, or a plain value, asks for something.
func enabled(v conf.Value) bool {
	if v.Kind != conf.Group {
		return !asksNothing(v)
	}
	on, ok := v.Find("enabled")
	return ok && !asksNothing(on)
}

// read is a rule for a key that is read before the others, as it depends on them.
func read() rule { return rule{apply: func(*reader, key) {}} }

func deepspeedKeys() keys {
	return keys{
		"train_batch_size": read(), "train_micro_batch_size_per_gpu": read(), "gradient_accumulation_steps": read(),
		"gradient_clipping": settled(to("training.max_grad_norm", number)),
		"optimizer": group(keys{
			"type": {apply: optimizerType}, "params": group(optimizerKeys()), "legacy_fusion": nothing("there is one AdamW"),
		}),
		"scheduler": group(keys{
			"type":   as("training.lr_scheduler", map[string]string{"WarmupLR": "WarmupLR", "WarmupDecayLR": "WarmupDecayLR"}),
			"params": group(schedulerKeys()),
		}),
		"fp16": group(halfKeys()),
		"bf16": group(keys{
			"enabled": settled(rule{apply: brainFloat}), "immediate_grad_update": always(), "auto_cast": always(),
		}),
		"communication_data_type":  maybe(auto(as("precision.reduce_dtype", floats))),
		"data_types":               group(keys{"grad_accum_dtype": only("fp32", "gradients accumulate in precision.reduce_dtype")}),
		"zero_optimization":        group(zeroKeys()),
		"activation_checkpointing": group(recomputeKeys()),
		"steps_per_print":          maybe(to("logging.log_every_n_steps", whole)),
		"tensorboard": group(keys{
			"enabled": to("logging.tensorboard", boolean), "output_path": nothing("TensorBoard's files go to tb in the output directory"),
			"job_name": nothing("TensorBoard's files go to tb in the output directory"),
		}),
		"wandb": feature(noWandb), "csv_monitor": feature("metrics.jsonl has the records"),
		"wall_clock_breakdown": nothing("every record has the times of its step"), "memory_breakdown": nothing("every record has the memory of its step"),
		"dump_state":     nothing("config.yaml in the output directory has the whole configuration"),
		"flops_profiler": feature("every record has what share of the machine's operations was used"), "comms_logger": feature("every record has the share of communication"),
		"dataloader_drop_last": to("data.drop_last", boolean),
		"prescale_gradients":   nothing("gradients are summed as they are and scaled once"), "gradient_predivide_factor": only("1", "gradients are summed as they are and scaled once"),
		"sparse_gradients":              nothing("gradients of embeddings are dense"),
		"zero_allow_untested_optimizer": always(), "zero_force_ds_cpu_optimizer": always(), "disable_allgather": nothing(oneWayToMove),
		"checkpoint": nothing("a checkpoint loads into any world here"), "load_universal_checkpoint": nothing("a checkpoint loads into any world here"),
		"aio": nothing("transfers are of sub-groups and units, a few at a time, past the system's cache"), "autotuning": feature("trireme plan says what fits"), "hybrid_engine": feature("there is one engine"),
		"compile": feature("nothing is compiled on a CPU"), "nebula": feature("there is one kind of checkpoint"), "pipeline": nothing("there is no pipeline"),
		"amp":                    refused("is NVIDIA's mixed precision, which is not here. try: \"fp16\": {\"enabled\": true}, or bf16"),
		"torch_autocast":         refused("computes some operations in another type: that is not here. try: \"bf16\": {\"enabled\": true}"),
		"elasticity":             refused("chooses the batch by the number of ranks: that is not here. try: train_batch_size"),
		"sparse_attention":       refused("attends to fewer positions: that is not here. try: leave it out"),
		"progressive_layer_drop": refused("leaves out layers: that is not here. try: leave it out"),
		"curriculum_learning":    refused("grows the sequences: that is not here. try: leave it out"),
		"data_efficiency":        refused("chooses the data: that is not here. try: leave it out"),
		"compression_training":   refused("trains a compressed model: that is not here. try: leave it out"),
		"quantize_training":      refused("trains a quantised model: that is not here. try: leave it out"),
		"eigenvalue":             feature("is part of quantised training"),
		"tensor_parallel":        feature("matrices are not divided among ranks"),
	}
}

const (
	oneWayToMove = "there is one way here: in flat units, in one order, while the step computes"
)

func optimizerKeys() keys {
	return keys{
		"lr": auto(rule{apply: func(r *reader, k key) {
			if peak, ok := r.find("scheduler", "params", "warmup_max_lr"); !ok || isAuto(peak.Value) {
				settled(to("training.learning_rate", number)).apply(r, k)
			}
		}}),
		"betas":           settled(numbers("training.betas", 2)),
		"eps":             settled(to("training.eps", number)),
		"weight_decay":    settled(to("training.weight_decay", number)),
		"bias_correction": must("true", "AdamW corrects its moments, which have begun at zero. try: true"),
		"amsgrad":         must("false", "AdamW is what there is. try: false"),
		"adam_w_mode":     always(), // optimizerType has looked at it
		"torch_adam":      always(), "fp32_optimizer_states": only("true", "the optimizer's state is float32"),
	}
}

func schedulerKeys() keys {
	return keys{
		"warmup_min_lr": settled(to("training.min_lr", number)), "warmup_max_lr": settled(to("training.learning_rate", number)),
		"warmup_num_steps": settled(to("training.warmup_steps", whole)), "total_num_steps": settled(to("training.max_steps", whole)),
		"warmup_type":          as("training.warmup_type", map[string]string{"log": "log", "linear": "linear"}),
		"last_batch_iteration": only("-1", "a resumed run goes on where it was"),
	}
}

func halfKeys() keys {
	ks := keys{"enabled": {apply: func(r *reader, k key) { // halves has read it
		if !isAuto(k.Value) {
			r.right(k, boolean)
		}
	}}}
	for _, name := range []string{
		"auto_cast", "loss_scale", "loss_scale_window", "initial_scale_power", "hysteresis", "consecutive_hysteresis", "min_loss_scale",
	} {
		ks[name] = always() // without fp16 they ask for nothing, and halves has read them
	}
	ks["fp16_master_weights_and_grads"] = must("false", "masters and gradients at rest are float32")
	return ks
}

func recomputeKeys() keys {
	return keys{
		"partition_activations":           nothing("is for tensor parallelism: ranks have activations of their own data, and there is nothing to divide"),
		"cpu_checkpointing":               nothing(oneMemory + "; activation_checkpointing.store: disk keeps inputs of layers in a file"),
		"contiguous_memory_optimization":  nothing("activations lie in one arena"),
		"number_checkpoints":              maybe(to("activation_checkpointing.segments", whole)),
		"synchronize_checkpoint_boundary": nothing("nothing is asynchronous there"), "profile": nothing("every record has the times of its step"),
	}
}

func zeroKeys() keys {
	const (
		flat      = "gradients lie in flat buckets, one of a unit"
		saves     = "float32 weights are saved, tensor by tensor"
		quantised = "would communicate fewer bits: that is not here. try: leave it out"
	)
	ks := keys{
		"stage": read(), "mics_shard_size": {apply: func(r *reader, k key) { r.right(k, whole) }}, "mics_hierarchical_params_gather": nothing(oneWayToMove),
		"contiguous_gradients": only("true", flat), "reduce_scatter": only("true", oneWayToMove), "allgather_partitions": only("true", oneWayToMove),
		"overlap_comm":       only("true", "communication goes on while the step computes, in any case"),
		"reduce_bucket_size": nothing(flat), "allgather_bucket_size": nothing(flat), "use_multi_rank_bucket_allreduce": only("true", flat),
		"sub_group_size": maybe(to("offload.optimizer.sub_group_size", whole)), "round_robin_gradients": nothing(flat), "legacy_stage1": nothing(oneWayToMove),
		"elastic_checkpoint": nothing("a checkpoint loads into any world here"), "load_from_fp32_weights": only("true", "float32 weights are loaded"),
		"pipeline_loading_checkpoint": nothing("a rank reads what it owns"), "ignore_unused_parameters": only("true", "a parameter that takes no part has a gradient of zero here"),
		"memory_efficient_linear": nothing("there is one matrix product"), "override_module_apply": nothing("there are no modules to override"),
		"log_trace_cache_warnings": nothing("there is no trace"), "use_all_reduce_for_fetch_params": nothing(oneWayToMove), "stage3_use_all_reduce_for_fetch_params": nothing(oneWayToMove),
		"stage3_module_granularity_threshold": nothing(unitIsLayer), "leaf_module": nothing(unitIsLayer),
		"zero_quantized_weights": must("false", quantised), "zero_quantized_nontrainable_weights": must("false", quantised), "zero_quantized_gradients": must("false", quantised),
		"zeropp_loco_param": refused(quantised),
		"offload_param":     group(offloadKeys("params")), "offload_optimizer": group(offloadKeys("optimizer")),
		"cpu_offload": offloadWhole("optimizer"), "cpu_offload_param": offloadWhole("params"), "cpu_offload_params": offloadWhole("params"), "cpu_offload_use_pin_memory": nothing(oneMemory),
	}
	for _, name := range []string{"gather_16bit_weights_on_model_save", "gather_fp16_weights_on_model_save"} {
		ks[name], ks["stage3_"+name] = nothing(saves), nothing(saves)
	}
	gatherKeys(ks)
	return ks
}
