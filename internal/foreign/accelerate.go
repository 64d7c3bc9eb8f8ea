package foreign

import (
	"errors"
	"path/filepath"
	"strings"

	"trireme/internal/conf"
	"trireme/optim"
)

// accelerateFormat is Accelerate's YAML. It says how ranks share the work, and nothing of the
// training.
func accelerateFormat() *format {
	return &format{
		name: Accelerate, whose: "Accelerate's",
		signs: []string{"distributed_type", "compute_environment", "fsdp_config", "deepspeed_config", "num_processes", "num_machines", "parallelism_config"},
		keys:  accelerateKeys(), read: readAccelerate,
	}
}

// kinds are distributed_type's values: the --mode that each is.
var kinds = map[string]string{
	"NO": "", "MULTI_CPU": "ddp", "MULTI_GPU": "ddp", "MULTI_XPU": "ddp", "MULTI_NPU": "ddp", "MULTI_MLU": "ddp", "MULTI_HPU": "ddp", "MULTI_MUSA": "ddp", "MULTI_SDAA": "ddp",
	"FSDP": "fsdp", "DEEPSPEED": "deepspeed", "MEGATRON_LM": "tensor", "XLA": "XLA", "TPU": "XLA",
}

func readAccelerate(r *reader) {
	r.world()
	r.walk(r.doc, "", r.format.keys)
	k, ok := r.find("distributed_type")
	kind := ""
	if ok {
		if kind, ok = r.choose(k, kinds); !ok {
			return
		}
	}
	switch {
	case kind == "tensor":
		r.fail(k, "divides matrices among ranks, which is not here. try: distributed_type: FSDP")
	case kind == "XLA":
		r.fail(k, "runs on TPUs, which are not here. try: distributed_type: FSDP, or MULTI_CPU")
	case kind != "":
		r.mode(k, k.Text, kind)
	}
	switch kind {
	case "deepspeed":
		r.accelerateEngine()
	case "fsdp":
		r.accelerateFSDP(k)
	default:
		r.assignPlain(k, kind)
	}
	if kind != "deepspeed" {
		r.mixedPrecision(kind)
	}
}

// assignPlain is DDP's strategy, or --mode's where there is one process.
func (r *reader) assignPlain(k key, kind string) {
	if kind == "ddp" || r.options.Mode == "" {
		r.assign(k, "parallel.strategy", "no_shard")
		return
	}
	r.byDefault("--mode "+r.options.Mode, "parallel.strategy", presets[r.options.Mode])
}

// world is how many ranks there are, and on how many machines.
func (r *reader) world() {
	ranks, machines := int64(0), int64(1)
	for name, n := range map[string]*int64{"num_processes": &ranks, "num_machines": &machines} {
		k, ok := r.find(name)
		if !ok || k.Kind == conf.Null || !r.right(k, whole) {
			continue
		}
		if *n, _ = k.Int(); *n < 1 || *n > 1<<20 {
			r.fail(k, "is %d: it must be at least 1", *n)
			return
		}
	}
	k, _ := r.find("num_machines")
	switch {
	case r.options.Launched || r.options.Ranks > 0 && (machines == 1 || r.options.Planned):
	case machines > 1 && !r.options.Planned:
		r.fail(k, "is %d: this starts ranks on one machine. try, on each: torchrun --nnodes %d --nproc_per_node %d ... --no_python trireme train ...", machines, machines, max(1, ranks/machines))
	default:
		r.ranks = int(ranks)
	}
	if r.options.Ranks == 0 {
		r.options.Ranks = r.ranks
	}
}

// mixedPrecision is what the plug-in makes of a name: all bfloat16 with FSDP; gradients float32
// with DDP, as its autocast leaves them.
func (r *reader) mixedPrecision(kind string) {
	k, ok := r.find("mixed_precision")
	if !ok || k.Kind == conf.Null {
		return
	}
	name, ok := r.choose(k, map[string]string{"no": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "fp8"})
	switch {
	case !ok:
	case name == "fp8":
		r.fail(k, "is fp8, which is not here. try: mixed_precision: bf16")
	default:
		r.assign(k, "precision.param_dtype", name)
		switch {
		case name == "float16" && kind == "deepspeed":
			r.assign(k, "precision.loss_scaling.kind", string(optim.DeepSpeedScaler))
		case name == "float16":
			r.assign(k, "precision.loss_scaling.kind", string(optim.TorchScaler))
		}
		if kind == "fsdp" {
			r.assign(k, "precision.reduce_dtype", name)
			r.assign(k, "precision.buffer_dtype", name)
		}
	}
}

// accelerateFSDP is the strategy of FSDP's first version by name or number, of its second by
// what is resharded, and the mesh.
func (r *reader) accelerateFSDP(kind key) {
	r.assign(kind, "parallel.strategy", "full_shard")
	if k, ok := r.find("fsdp_config", "fsdp_reshard_after_forward"); ok && k.Kind != conf.Null {
		r.reshardAfterForward(k)
	}
	if k, ok := r.find("fsdp_config", "fsdp_sharding_strategy"); ok && k.Kind != conf.Null {
		names := map[string]string{"1": "full_shard", "2": "shard_grad_op", "3": "no_shard", "4": "hybrid_shard", "5": "hybrid_shard_zero2"}
		for theirs, ours := range strategies {
			names[theirs] = ours
		}
		if name, ok := r.choose(k, names); ok {
			r.assign(k, "parallel.strategy", name)
		}
	}
	copies, ok := r.find("parallelism_config", "parallelism_config_dp_replicate_size")
	if n, err := copies.Int(); ok && err == nil && n > 1 {
		r.assign(copies, "parallel.strategy", "hybrid_shard")
		r.assign(copies, "parallel.mesh.replicate", copies.Text)
		if shard, ok := r.find("parallelism_config", "parallelism_config_dp_shard_size"); ok && whole(shard.Value) == nil {
			r.assign(shard, "parallel.mesh.shard", shard.Text)
		}
	}
}

// accelerateEngine is the group deepspeed_config, or the file that it names.
func (r *reader) accelerateEngine() {
	if file, ok := r.find("deepspeed_config", "deepspeed_config_file"); ok && file.Kind == conf.Scalar && !strings.EqualFold(file.Text, "none") {
		r.engineFile(file)
		return
	}
	r.byDefault(engineDefault, "parallel.strategy", "shard_grad_op")
	if k, ok := r.find("deepspeed_config", "zero_stage"); ok {
		name, known := stages[k.Text]
		if !known {
			r.fail(k, "%s is not one of 0, 1, 2, 3", k.Describe())
			return
		}
		r.assign(k, "parallel.strategy", name)
	}
	k, ok := r.find("mixed_precision")
	r.mixedPrecision("deepspeed")
	switch {
	case ok && strings.EqualFold(k.Text, "bf16"):
		r.assign(k, "precision.reduce_dtype", "bfloat16")
	case ok && strings.EqualFold(k.Text, "fp16"):
		r.assign(k, "precision.reduce_dtype", "float16")
	}
}

// engineFile reads DeepSpeed's own file, which lies where its name says, or says so beside the
// file that names it.
func (r *reader) engineFile(k key) {
	name := k.Text
	text, err := conf.Read(name)
	if beside := filepath.Join(filepath.Dir(r.name), name); err != nil && !filepath.IsAbs(name) && beside != name {
		if t, second := conf.Read(beside); second == nil {
			name, text, err = beside, t, nil
		}
	}
	var doc conf.Value
	if err == nil {
		doc, err = conf.Parse(name, text)
	}
	var problems conf.Errors
	if errors.As(err, &problems) {
		for _, p := range problems {
			r.problems = append(r.problems, conf.Problem{Where: k.where, Path: k.path, Text: p.Error(), Err: p.Err})
		}
		return
	}
	inner := &reader{name: name, options: r.options, format: deepspeedFormat()}
	inner.engine(doc)
	r.silent = append(r.silent, inner.silent...)
	r.set = append(r.set, inner.set...)
	r.fixed = append(r.fixed, inner.fixed...)
	r.notes = append(r.notes, inner.notes...)
	r.problems = append(r.problems, inner.problems...)
}

func accelerateKeys() keys {
	const (
		launched = "the launcher that starts the ranks says so"
		oneKind  = "that hardware is not here"
	)
	return keys{
		"compute_environment": only("LOCAL_MACHINE", "ranks run on this machine, or where another launcher starts them"),
		"debug":               nothing("ranks compare their collectives in any case"),
		"distributed_type":    read(), "num_processes": maybe(checked(whole)), "num_machines": maybe(checked(whole)), "mixed_precision": read(),
		"downcast_bf16": nothing(oneKind), "enable_cpu_affinity": nothing("device.threads divides the processors"),
		"machine_rank": nothing(launched), "main_process_ip": nothing(launched), "main_process_port": nothing(launched), "same_network": only("true", launched),
		"rdzv_backend": only("static", launched), "gpu_ids": only("all", "there is no GPU here"),
		"main_training_function": only("main", "there is one"), "use_cpu": only("true", "a CPU is what there is"),
		"tpu_env": nothing(oneKind), "tpu_name": nothing(oneKind), "tpu_zone": nothing(oneKind), "tpu_use_cluster": nothing(oneKind), "tpu_use_sudo": nothing(oneKind),
		"commands": nothing(launched), "command_file": nothing(launched), "tpu_vm": nothing(oneKind), "ipex_config": nothing(oneKind), "mpirun_config": nothing(launched),
		"dynamo_config": nothing("nothing is compiled on a CPU"), "megatron_lm_config": nothing("distributed_type is another"), "fp8_config": nothing("mixed_precision is another"),
		"gradient_accumulation_steps": auto(to("training.gradient_accumulation_steps", whole)),
		"fsdp_config":                 group(accelerateFSDPKeys()),
		"deepspeed_config":            group(accelerateDeepSpeedKeys()),
		"parallelism_config": group(keys{
			"parallelism_config_dp_replicate_size": checked(whole), "parallelism_config_dp_shard_size": checked(whole),
			"parallelism_config_tp_size": must("1", "matrices are not divided among ranks here (tensor parallelism). try: 1"),
			"parallelism_config_cp_size": must("1", "sequences are not divided among ranks here (context parallelism). try: 1"),
			"parallelism_config_sp_size": must("1", "sequences are not divided among ranks here (sequence parallelism). try: 1"),
			"parallelism_config_ep_size": must("1", "there are no experts here. try: 1"), "parallelism_config_cp_comm_strategy": always(),
		}),
	}
}

// checked checks a key that another has read.
func checked(right check) rule { return rule{apply: func(r *reader, k key) { r.right(k, right) }} }

func accelerateFSDPKeys() keys {
	return keys{
		"fsdp_version":                       {apply: func(r *reader, k key) { r.choose(k, map[string]string{"1": "", "2": ""}) }},
		"fsdp_sharding_strategy":             read(),
		"fsdp_reshard_after_forward":         read(),
		"fsdp_offload_params":                maybe(offloadWhole("optimizer", "params")),
		"fsdp_auto_wrap_policy":              wrapPolicy(map[string]string{"TRANSFORMER_BASED_WRAP": "transformer", "SIZE_BASED_WRAP": "size", "NO_WRAP": "none"}),
		"fsdp_transformer_layer_cls_to_wrap": always(),
		"fsdp_min_num_params":                minParams("fsdp_config", "fsdp_auto_wrap_policy"),
		"fsdp_backward_prefetch":             backwardPrefetch(),
		"fsdp_backward_prefetch_policy":      backwardPrefetch(),
		"fsdp_forward_prefetch":              only("true", hostAhead),
		"fsdp_state_dict_type":               as("checkpoint.state_dict_type", stateDicts),
		"fsdp_use_orig_params":               only("true", "parameters keep their names and shapes in any case"),
		"fsdp_sync_module_states":            only("true", "all ranks begin with the same parameters in any case"),
		"fsdp_cpu_ram_efficient_loading":     only("true", "a rank reads what it owns, in any case"),
		"fsdp_activation_checkpointing":      to("activation_checkpointing.enabled", boolean),
		"fsdp_ignored_modules":               {apply: ignoredModules},
	}
}

// ignoredModules would not be divided; that is not here.
func ignoredModules(r *reader, k key) {
	r.note(k, "every unit is divided", asksNothing(k.Value))
}

func accelerateDeepSpeedKeys() keys {
	return keys{
		"deepspeed_config_file": read(), "zero_stage": read(),
		"gradient_accumulation_steps": auto(to("training.gradient_accumulation_steps", whole)),
		"gradient_clipping":           auto(to("training.max_grad_norm", number)),
		"offload_optimizer_device":    offloadDevice("optimizer"), "offload_param_device": offloadDevice("params"),
		"offload_optimizer_nvme_path": maybe(to("offload.optimizer.path", word)), "offload_param_nvme_path": maybe(to("offload.params.path", word)),
		"zero3_init_flag": always(), "zero3_save_16bit_model": nothing("float32 weights are saved, tensor by tensor"),
		"deepspeed_multinode_launcher": only("standard", "the launcher that starts the ranks says so"), "deepspeed_hostfile": nothing("the launcher that starts the ranks says so"),
		"deepspeed_inclusion_filter": nothing("the launcher that starts the ranks says so"), "deepspeed_exclusion_filter": nothing("the launcher that starts the ranks says so"),
		"deepspeed_moe_layer_cls_names": nothing("there are no experts here"),
	}
}
