package foreign

import "trireme/train"

func zeroKeys() keys {
	const (
		buckets   = "the gradients of a unit form one bucket"
		quantized = "quantized communication is not available"
	)
	ks := keys{
		"stage":                           elsewhere("`parallel.strategy`: no_shard, zero_1, shard_grad_op, full_shard"),
		"mics_shard_size":                 checked("`parallel.strategy: hybrid_shard`, `parallel.mesh.shard`", whole),
		"mics_hierarchical_params_gather": ignored(oneWay),
		"contiguous_gradients":            only("true", buckets),
		"reduce_scatter":                  only("true", oneWay),
		"allgather_partitions":            only("true", oneWay),
		"overlap_comm":                    only("true", "communication always overlaps computation"),
		"reduce_bucket_size":              ignored(buckets),
		"allgather_bucket_size":           ignored(oneWay),
		"use_multi_rank_bucket_allreduce": only("true", oneWay),
		"allgather_sequential":            ignored(oneWay), "stage3_allgather_sequential": ignored(oneWay),
		"round_robin_gradients":           ignored(buckets),
		"legacy_stage1":                   ignored(oneWay),
		"sub_group_size":                  maybe(to("offload.optimizer.sub_group_size", whole)),
		"compute_grad_norm":               only("true", "the norm of the gradients is always computed"),
		"elastic_checkpoint":              silent(anyWorld),
		"load_from_fp32_weights":          only("true", "float32 weights are loaded"),
		"pipeline_loading_checkpoint":     silent("a rank reads only what it owns"),
		"ignore_unused_parameters":        only("true", "a parameter that takes no part has a gradient of zero"),
		"memory_efficient_linear":         silent("there is one matrix product"),
		"override_module_apply":           silent("there are no Python modules"),
		"log_trace_cache_warnings":        silent("there is no trace of fetched parameters"),
		"enable_sanity_checks":            silent("ranks always compare their collectives"),
		"parameter_alignment":             ignored("parameters lie one after another in the flat buffer of their unit"),
		"use_all_reduce_for_fetch_params": ignored(oneWay), "stage3_use_all_reduce_for_fetch_params": ignored(oneWay),
		"module_granularity_threshold": ignored(unitIsLayer), "stage3_module_granularity_threshold": ignored(unitIsLayer),
		"leaf_module":                         ignored(unitIsLayer),
		"zero_quantized_weights":              must("false", quantized),
		"zero_quantized_nontrainable_weights": must("false", quantized),
		"zero_quantized_gradients":            must("false", quantized),
		"zeropp_loco_param":                   refused(quantized, "remove the key"),
		"zenflow":                             refused("ZenFlow, which updates the most important gradients first, is not available", "remove the key"),
		"save_muon_momentum_buffer_in_memory": silent("Muon's momentum rests where other optimizer state does"),

		"offload_param":              group(offloadKeys("params")),
		"offload_optimizer":          group(offloadKeys("optimizer")),
		"cpu_offload":                offloadWhole("optimizer"),
		"cpu_offload_param":          offloadWhole("params"),
		"cpu_offload_params":         offloadWhole("params"),
		"cpu_offload_use_pin_memory": silent("nothing is copied to a device"),
	}
	for _, name := range []string{"gather_16bit_weights_on_model_save", "gather_fp16_weights_on_model_save"} {
		ks[name], ks["stage3_"+name] = savesHalf(), savesHalf()
	}
	gatherKeys(ks)
	return ks
}

// savesHalf is a key that has the model saved in the 16 bits that it computes in.
func savesHalf() rule {
	return auto(custom("`export.dtype: compute`", func(r *reader, k key) {
		if !r.right(k, boolean) {
			return
		}
		if on, _ := k.Bool(); on {
			r.assign(k, "export.dtype", string(train.ExportAsCompute))
		}
	}))
}
