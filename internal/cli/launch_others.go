package cli

import "strings"

// otherFlag is a flag of the launcher of accelerate or deepspeed. One of same, child, without, refused or a case
// in settings says what it does.
type otherFlag struct {
	name, owner  string
	bare, number bool   // takes no value, or an integer
	same         string // the flag with this meaning
	child        string // key of an Accelerate file, as a configuration of trireme train
	without      string // why it has no effect
	refused      string // what to use instead
}

func (o otherFlag) usage() string {
	switch {
	case o.same != "":
		return o.owner + ": same as --" + o.same
	case o.child != "":
		return o.owner + ": configures trireme train"
	case o.without != "":
		return o.owner + ": no effect: " + o.without
	case o.refused != "":
		return o.owner + ": not supported. try: " + o.refused
	}
	return o.owner + ": docs/clusters.md"
}

const (
	ofAccelerate = "accelerate"
	ofDeepSpeed  = "deepspeed"
)

var otherFlags = others()

func others() (all []otherFlag) {
	add := func(o otherFlag, names string) {
		for name := range strings.FieldsSeq(names) {
			o.name = name
			all = append(all, o)
		}
	}
	a := func(o otherFlag) otherFlag { o.owner = ofAccelerate; return o }
	d := func(o otherFlag) otherFlag { o.owner = ofDeepSpeed; return o }

	add(a(otherFlag{number: true, same: "nnodes"}), "num_machines")
	add(a(otherFlag{number: true, same: "node_rank"}), "machine_rank")
	add(a(otherFlag{same: "master_addr"}), "main_process_ip")
	add(a(otherFlag{number: true, same: "master_port"}), "main_process_port")
	add(a(otherFlag{number: true}), "num_processes num_cpu_threads_per_process")
	add(a(otherFlag{}), "config_file gpu_ids")
	add(a(otherFlag{bare: true}), "cpu quiet")
	add(a(otherFlag{same: "hostfile"}), "deepspeed_hostfile")
	add(a(otherFlag{same: "include"}), "deepspeed_inclusion_filter")
	add(a(otherFlag{same: "exclude"}), "deepspeed_exclusion_filter")
	add(a(otherFlag{same: "launcher"}), "deepspeed_multinode_launcher")

	add(a(otherFlag{child: "mixed_precision"}), "mixed_precision")
	add(a(otherFlag{child: "distributed_type", bare: true}), "use_fsdp use_deepspeed")
	for name := range strings.FieldsSeq("sharding_strategy reshard_after_forward offload_params min_num_params auto_wrap_policy transformer_layer_cls_to_wrap backward_prefetch state_dict_type forward_prefetch use_orig_params cpu_ram_efficient_loading sync_module_states activation_checkpointing version") {
		add(a(otherFlag{child: "fsdp_config." + "fsdp_" + name}), "fsdp_"+name)
	}
	for name := range strings.FieldsSeq("deepspeed_config_file zero_stage offload_optimizer_device offload_param_device offload_optimizer_nvme_path offload_param_nvme_path gradient_clipping zero3_init_flag zero3_save_16bit_model deepspeed_moe_layer_cls_names") {
		add(a(otherFlag{child: "deepspeed_config." + name}), name)
	}
	add(a(otherFlag{child: "gradient_accumulation_steps"}), "gradient_accumulation_steps")
	for name := range strings.FieldsSeq("dp_replicate_size dp_shard_size tp_size cp_size") {
		add(a(otherFlag{child: "parallelism_config.parallelism_config_" + name}), "parallelism_config_"+name)
	}

	add(a(otherFlag{bare: true, without: "--num_processes and --num_machines have the numbers"}), "multi_gpu use_parallelism_config")
	add(a(otherFlag{bare: true, without: "every launcher reaches machine 0"}), "same_network")
	add(a(otherFlag{bare: true}), "enable_cpu_affinity")
	add(a(otherFlag{bare: true, without: "ranks always check that their collectives match"}), "debug")
	add(a(otherFlag{bare: true, without: "it is for TPUs"}), "downcast_bf16 tpu_use_sudo no_tpu_cluster")
	add(a(otherFlag{without: "it is for notebooks and TPUs"}), "main_training_function vm env")
	add(a(otherFlag{without: "programs compile their models themselves"}), "dynamo_backend dynamo_mode")
	add(a(otherFlag{bare: true, without: "programs compile their models themselves"}), "dynamo_use_fullgraph dynamo_use_dynamic dynamo_use_regional_compilation")
	add(a(otherFlag{bare: true, without: "programs choose their device"}), "use_xpu use_mps_device ipex")
	add(a(otherFlag{bare: true, refused: "trireme train --device tpu, on one machine"}), "tpu tpu_cluster")
	add(a(otherFlag{bare: true, refused: "--use_fsdp"}), "use_megatron_lm")
	add(a(otherFlag{refused: "mpirun -np 4 trireme train"}), "mpirun_hostfile mpirun_ccl")
	add(a(otherFlag{refused: "trireme launch on the instances"}), "aws_access_key_id aws_secret_access_key")

	add(d(otherFlag{number: true, same: "nnodes"}), "num_nodes")
	add(d(otherFlag{number: true}), "num_gpus min_elastic_nodes max_elastic_nodes")
	add(d(otherFlag{}), "launcher enable_each_rank_log")
	add(d(otherFlag{bare: true, without: "the machines are connected directly"}), "no_ssh_check")
	add(d(otherFlag{bare: true, without: "programs read LOCAL_RANK"}), "no_local_rank")
	add(d(otherFlag{bare: true, without: "--nnodes MIN:MAX is elastic"}), "elastic_training")
	add(d(otherFlag{bare: true}), "bind_cores_to_rank")
	add(d(otherFlag{refused: "trireme launch -- taskset -c 0-31 python3 train.py"}), "bind_core_list")
	add(d(otherFlag{refused: "trireme plan, which computes the memory of a run before it starts"}), "autotuning")
	add(d(otherFlag{refused: "trireme launch -- sh -c '. venv/bin/activate && exec python3 train.py'"}), "venv_script")
	add(d(otherFlag{bare: true, refused: "trireme launch train.py & echo $! > pid"}), "save_pid")
	return all
}
