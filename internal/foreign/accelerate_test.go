package foreign_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trireme/device"
	"trireme/internal/conf"
	"trireme/internal/foreign"
	"trireme/train"
)

// answers are files of `accelerate config` for each distributed_type, with defaults for the other
// questions, in its order of keys.
const answers = `compute_environment: LOCAL_MACHINE
debug: false
KIND
downcast_bf16: 'no'
enable_cpu_affinity: false
machine_rank: 0
main_training_function: main
num_machines: 1
num_processes: 2
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: false
`

// TestDefaultAnswers checks that a default file of `accelerate config` has no notes.
func TestDefaultAnswers(t *testing.T) {
	for name, c := range map[string]struct{ kind, want string }{
		"one CPU":        {"distributed_type: 'NO'\nmixed_precision: 'no'", "no_shard float32"},
		"several CPUs":   {"distributed_type: MULTI_CPU\nmixed_precision: 'no'", "no_shard float32"},
		"several GPUs":   {"distributed_type: MULTI_GPU\ngpu_ids: all\nmixed_precision: bf16", "no_shard bfloat16"},
		"Neuron":         {"distributed_type: MULTI_NEURON\ngpu_ids: all\nmixed_precision: 'no'", "no_shard float32"},
		"DeepSpeed":      {"deepspeed_config:\n  gradient_accumulation_steps: 1\n  offload_optimizer_device: none\n  offload_param_device: none\n  zero3_init_flag: false\n  zero_stage: 2\ndistributed_type: DEEPSPEED\nmixed_precision: bf16", "shard_grad_op bfloat16"},
		"DeepSpeed at 3": {"deepspeed_config:\n  gradient_accumulation_steps: 1\n  gradient_clipping: 1.0\n  offload_optimizer_device: none\n  offload_param_device: none\n  zero3_init_flag: true\n  zero3_save_16bit_model: false\n  zero_stage: 3\ndistributed_type: DEEPSPEED\nmixed_precision: 'no'", "full_shard float32"},
		"FSDP 2": {"distributed_type: FSDP\nfsdp_config:\n  fsdp_activation_checkpointing: false\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_cpu_ram_efficient_loading: true\n  fsdp_offload_params: false\n" +
			"  fsdp_reshard_after_forward: true\n  fsdp_state_dict_type: SHARDED_STATE_DICT\n  fsdp_transformer_layer_cls_to_wrap: ''\n  fsdp_version: 2\nmixed_precision: bf16", "full_shard bfloat16"},
		"FSDP 2 with a mesh": {"distributed_type: FSDP\nfsdp_config:\n  fsdp_auto_wrap_policy: NO_WRAP\n  fsdp_reshard_after_forward: true\n  fsdp_version: 2\nparallelism_config:\n  parallelism_config_cp_size: 1\n  parallelism_config_dp_replicate_size: 1\n  parallelism_config_dp_shard_size: 1\n  parallelism_config_tp_size: 1\nmixed_precision: 'no'", "full_shard float32"},
		"FSDP 1": {"distributed_type: FSDP\nfsdp_config:\n  fsdp_activation_checkpointing: false\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_backward_prefetch: BACKWARD_PRE\n  fsdp_cpu_ram_efficient_loading: true\n  fsdp_forward_prefetch: false\n" +
			"  fsdp_offload_params: false\n  fsdp_reshard_after_forward: FULL_SHARD\n  fsdp_state_dict_type: FULL_STATE_DICT\n  fsdp_sync_module_states: true\n  fsdp_transformer_layer_cls_to_wrap: Qwen2DecoderLayer\n  fsdp_use_orig_params: true\n  fsdp_version: 1\nmixed_precision: 'no'", "full_shard float32"},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := foreign.Read("x.yaml", strings.Replace(answers, "KIND", c.kind, 1), foreign.Options{Ranks: 2})
			if err != nil {
				t.Fatal(err)
			}
			if w := file.Warning(); w != "" {
				t.Error(w)
			}
			loaded, err := conf.Load(train.Default(), file.Source, conf.Set("--set", "model.path=m"), conf.Set("--set", "data.path=d"))
			if err != nil {
				t.Fatal(err)
			}
			if got := loaded.Value.Parallel.Strategy + " " + loaded.Value.Precision.ParamDType; got != c.want {
				t.Errorf("it comes to %s, not %s", got, c.want)
			}
		})
	}
	const basic = `{"compute_environment": "LOCAL_MACHINE", "debug": false, "distributed_type": "NO", "downcast_bf16": false, "enable_cpu_affinity": false, "machine_rank": 0,
 "main_training_function": "main", "mixed_precision": "no", "num_machines": 1, "num_processes": 1, "rdzv_backend": "static", "same_network": false, "tpu_use_cluster": false, "tpu_use_sudo": false, "use_cpu": true}`
	file, err := foreign.Read("default_config.yaml", basic, foreign.Options{})
	if err != nil || file.Warning() != "" {
		t.Errorf("accelerate config default: %v; %v", file, err)
	}
}

// TestAccelerate checks the assignments of files, or their errors.
func TestAccelerate(t *testing.T) {
	for _, c := range []struct {
		name, text string
		ranks      int
		want       string // path=value, or a part of the error
	}{
		{"keys without their prefix", "distributed_type: FSDP\nfsdp_config: {sharding_strategy: SHARD_GRAD_OP, state_dict_type: FULL_STATE_DICT}\n", 0, "parallel.strategy=shard_grad_op checkpoint.state_dict_type=full"},
		{"fp16, as it was", "distributed_type: MULTI_CPU\nfp16: true\n", 0, "precision.param_dtype=float16 precision.loss_scaling.kind=torch"},
		{"SageMaker", "compute_environment: AMAZON_SAGEMAKER\ndistributed_type: 'NO'\nec2_instance_type: x\n", 0, "x.yaml:1:1: compute_environment is AMAZON_SAGEMAKER, which is not supported. try: LOCAL_MACHINE"},
		{"ranks that the command line says", "distributed_type: MULTI_CPU\nnum_processes: -1\n", 2, "parallel.strategy=no_shard"},
		{"ranks that nobody says", "distributed_type: MULTI_CPU\nnum_processes: -1\n", 0, "x.yaml:2:1: num_processes is -1, which leaves the number of ranks to the command line. try: ranks=2"},
		{"a mesh", "distributed_type: FSDP\nparallelism_config: {parallelism_config_dp_replicate_size: 2, parallelism_config_dp_shard_size: 2}\n", 4, "parallel.strategy=hybrid_shard parallel.mesh.replicate=2 parallel.mesh.shard=2"},
		{"a mesh of other ranks", "distributed_type: FSDP\nparallelism_config: {parallelism_config_dp_replicate_size: 2, parallelism_config_dp_shard_size: 4}\n", 4,
			"x.yaml:2:63: parallelism_config.parallelism_config_dp_shard_size: dp_replicate_size 2 x dp_shard_size 4 is not the number of ranks, 4. try: ranks=8"},
		{"sequences", "distributed_type: FSDP\nparallelism_config: {parallelism_config_sp_size: 2, parallelism_config_sp_backend: deepspeed}\n", 0, "parallelism_config_sp_size is \"2\": sequence parallelism is not supported. try: 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, err := foreign.Read("x.yaml", c.text, foreign.Options{Ranks: c.ranks})
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v\nis without %s", err, c.want)
				}
				return
			}
			loaded, _ := conf.Load(train.Default(), file.Source)
			for want := range strings.SplitSeq(c.want, " ") {
				path, value, _ := strings.Cut(want, "=")
				if got := conf.Get(loaded.Value, path); got != value {
					t.Errorf("%s is %s, not %s", path, got, value)
				}
			}
		})
	}
}

// TestOverruled checks the notes for keys of Accelerate's file that DeepSpeed's file overrules, and the
// message for a DeepSpeed file that does not exist.
func TestOverruled(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "accelerate.yaml")
	if err := os.WriteFile(filepath.Join(dir, "zero.json"), []byte(`{"train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0, "zero_optimization": {"stage": 3}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const text = "distributed_type: DEEPSPEED\nmixed_precision: bf16\ngradient_accumulation_steps: 4\n" +
		"deepspeed_config:\n  deepspeed_config_file: zero.json\n  zero_stage: 3\n  gradient_clipping: 0.5\n"
	file, err := foreign.Read(path, text, foreign.Options{Ranks: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"accelerate.yaml:2:1: mixed_precision: bf16 has no effect: fp16 and bf16 in " + filepath.Join(dir, "zero.json") + " set the precision",
		"accelerate.yaml:3:1: gradient_accumulation_steps: 4 has no effect: ",
		"accelerate.yaml:7:3: deepspeed_config.gradient_clipping: 0.5 has no effect: ",
	} {
		if !strings.Contains(file.Warning(), want) {
			t.Errorf("%s\nis without %s", file.Warning(), want)
		}
	}
	if strings.Contains(file.Warning(), "zero_stage") {
		t.Error(file.Warning())
	}
	_, err = foreign.Read(path, strings.Replace(text, "zero.json", "none.json", 1), foreign.Options{Ranks: 2})
	if want := "deepspeed_config.deepspeed_config_file: none.json: no such file, nor in " + dir; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v is not %s", err, want)
	}
}

// TestWithoutType checks the note for params without a type.
func TestWithoutType(t *testing.T) {
	file, err := foreign.Read("x.json", `{"gradient_clipping": 1.0, "scheduler": {"params": {"warmup_num_steps": 5}}, "zero_optimization": {"stage": 2}}`, foreign.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "scheduler.params: a group of keys has an effect here, although DeepSpeed ignores it without scheduler.type"; !strings.Contains(file.Warning(), want) {
		t.Errorf("%s\nis without %s", file.Warning(), want)
	}
}

func TestDevice(t *testing.T) {
	for text, want := range map[string]device.Name{"use_cpu: true": "cpu", "use_cpu: false": "cuda", "gpu_ids: all": "cuda"} {
		file, err := foreign.Read("x.yaml", "distributed_type: 'NO'\n"+text+"\n", foreign.Options{Format: foreign.Accelerate, Ranks: 1})
		if err != nil {
			t.Fatal(err)
		}
		base := train.Default()
		base.Device.Name = device.CUDA
		loaded, err := conf.Load(base, file.Source, conf.Set("--set", "model.path=m"), conf.Set("--set", "data.path=d"))
		if err != nil || loaded.Value.Device.Name != want || file.Warning() != "" {
			t.Errorf("%s: %s, %v, %s", text, loaded.Value.Device.Name, err, file.Warning())
		}
	}
	file, err := foreign.Read("x.yaml", "distributed_type: 'NO'\ngpu_ids: 0,1\n", foreign.Options{Format: foreign.Accelerate, Ranks: 1})
	if err != nil || !strings.Contains(file.Warning(), "CUDA_VISIBLE_DEVICES selects GPUs") {
		t.Errorf("gpu_ids 0,1: %v, %v", file.Warning(), err)
	}
}
