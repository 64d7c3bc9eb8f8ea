package foreign

import "trireme/internal/conf"

// trainerDeepSpeedFile is the DeepSpeed trainer's default file.
const trainerDeepSpeedFile = `{
  "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
  "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": "auto"}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": "auto", "warmup_num_steps": "auto", "total_num_steps": "auto"}},
  "gradient_clipping": 1.0, "steps_per_print": 100, "bf16": {"enabled": true},
  "zero_optimization": {
    "stage": 3, "overlap_comm": true, "contiguous_gradients": true, "reduce_bucket_size": "auto", "allgather_bucket_size": 5e8, "reduce_scatter": true,
    "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto", "stage3_max_live_parameters": 1e9, "stage3_max_reuse_distance": 1e9,
    "stage3_gather_16bit_weights_on_model_save": true,
    "offload_optimizer": {"device": "cpu", "pin_memory": true}, "offload_param": {"device": "cpu", "pin_memory": true}
  },
  "activation_checkpointing": {"partition_activations": true, "cpu_checkpointing": true, "contiguous_memory_optimization": true}
}`

// Trainer returns the defaults of a trainer (ddp, fsdp or deepspeed), including model and data: --mode
// without a file. Other sources may override all of them.
func Trainer(mode string, o Options) *File {
	name := "--mode " + mode
	r := &reader{name: name, options: o, format: byName(Format(mode)), doc: conf.Value{Kind: conf.Group}}
	if r.format.name == DeepSpeed {
		r.doc, _ = conf.Parse(name, trainerDeepSpeedFile) // constant, and tested
	}
	r.format.read(r)
	file := r.file()
	at := name + " (" + trainerDefault + ")"
	for i := range file.Assignments {
		file.Assignments[i].Where = at
	}
	for i := range file.Notes {
		file.Notes[i].Where = at
	}
	file.Fixed, file.Source = nil, conf.Assign(file.Assignments)
	return file
}
