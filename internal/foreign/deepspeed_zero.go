package foreign

import "trireme/train"

func zeroKeys() keys {
	const (
		buckets   = "each unit has one gradient bucket"
		quantized = "quantized communication is not supported"
	)
	ks := keys{
		"stage":                           readTogether("`parallel.strategy`: no_shard, zero_1, shard_grad_op, full_shard"),
		"mics_shard_size":                 checked("`parallel.strategy: hybrid_shard`, `parallel.mesh.shard`", integer),
		"mics_hierarchical_params_gather": ignored(oneSchedule),
		"contiguous_gradients":            constant("true", buckets),
		"reduce_scatter":                  constant("true", oneSchedule),
		"allgather_partitions":            constant("true", oneSchedule),
		"overlap_comm":                    constant("true", "communication always overlaps computation"),
		"reduce_bucket_size":              ignored(buckets),
		"allgather_bucket_size":           ignored(oneSchedule),
		"use_multi_rank_bucket_allreduce": constant("true", oneSchedule),
		"allgather_sequential":            ignored(oneSchedule), "stage3_allgather_sequential": ignored(oneSchedule),
		"round_robin_gradients":           ignored(buckets),
		"legacy_stage1":                   ignored(oneSchedule),
		"sub_group_size":                  nullable(to("offload.optimizer.sub_group_size", integer)),
		"compute_grad_norm":               constant("true", "the gradient norm is always computed"),
		"elastic_checkpoint":              noEffect(anyRanks),
		"load_from_fp32_weights":          constant("true", "float32 weights are always loaded"),
		"pipeline_loading_checkpoint":     noEffect("each rank reads only its shard"),
		"ignore_unused_parameters":        constant("true", "unused parameters get zero gradients"),
		"memory_efficient_linear":         noEffect("there is one implementation of linear layers"),
		"override_module_apply":           noEffect("no Python runs"),
		"log_trace_cache_warnings":        noEffect("parameters are fetched in a fixed order"),
		"enable_sanity_checks":            noEffect("ranks always check that their collectives match"),
		"parameter_alignment":             ignored("parameters are contiguous in the flat parameter of their unit"),
		"use_all_reduce_for_fetch_params": ignored(oneSchedule), "stage3_use_all_reduce_for_fetch_params": ignored(oneSchedule),
		"module_granularity_threshold": ignored(unitIsLayer), "stage3_module_granularity_threshold": ignored(unitIsLayer),
		"leaf_module":                         ignored(unitIsLayer),
		"zero_quantized_weights":              required("false", quantized),
		"zero_quantized_nontrainable_weights": required("false", quantized),
		"zero_quantized_gradients":            required("false", quantized),
		"zeropp_loco_param":                   refused(quantized, "remove the key"),
		"zenflow":                             refused("ZenFlow is not supported", "remove the key"),
		"save_muon_momentum_buffer_in_memory": noEffect("Muon's momentum is stored with the other optimizer state"),

		"offload_param":              group(offloadKeys("params")),
		"offload_optimizer":          group(offloadKeys("optimizer")),
		"cpu_offload":                offloadToHost("optimizer"),
		"cpu_offload_param":          offloadToHost("params"),
		"cpu_offload_params":         offloadToHost("params"),
		"cpu_offload_use_pin_memory": noEffect("nothing is copied to a device"),
	}
	for _, name := range []string{"gather_16bit_weights_on_model_save", "gather_fp16_weights_on_model_save"} {
		ks[name], ks["stage3_"+name] = exportsComputeDType(), exportsComputeDType()
	}
	gatherKeys(ks)
	return ks
}

// exportsComputeDType is the rule for keys that export the model in param_dtype.
func exportsComputeDType() rule {
	return auto(custom("`export.dtype: compute`", func(r *reader, k key) {
		if !r.checkValue(k, boolean) {
			return
		}
		if on, _ := k.Bool(); on {
			r.assign(k, "export.dtype", string(train.ExportAsCompute))
		}
	}))
}
