package keys

import (
	"fmt"
	"strings"
	"sync"

	"trireme/fault"
)

// alias lists the names of a key in other programs, separated by spaces. Case, - and _ do not matter. For
// an empty key the note is the reason.
type alias struct {
	key, program, names, note string
}

var aliases = []alias{
	{key: "training.micro_batch_size", program: "transformers", names: "per_device_train_batch_size per_gpu_train_batch_size per_device_batch_size train_batch_size_per_device"},
	{key: "training.micro_batch_size", program: "transformers", names: "per_device_eval_batch_size eval_batch_size", note: "evaluation uses it too"},
	{key: "training.micro_batch_size", program: "torchtune and nanoGPT", names: "batch_size bs batch"},
	{key: "training.micro_batch_size", program: "torchtitan", names: "local_batch_size"},
	{key: "training.micro_batch_size", program: "DeepSpeed", names: "train_micro_batch_size_per_gpu micro_batch_size_per_gpu batch_size_per_gpu batch_size_per_device"},
	{key: "training.micro_batch_tokens", program: "fairseq and NeMo", names: "max_tokens batch_tokens max_tokens_per_batch max_tokens_per_gpu tokens_per_batch"},
	{key: "training.global_batch_size", program: "DeepSpeed", names: "train_batch_size total_batch_size effective_batch_size"},
	{key: "training.gradient_accumulation_steps", program: "Lightning", names: "accumulate_grad_batches grad_accum grad_accumulation gradient_accumulation accumulation_steps grad_accumulation_steps grad_accum_steps"},
	{key: "training.max_steps", program: "nanoGPT", names: "max_iters lr_decay_iters train_iters max_iterations iterations num_iterations"},
	{key: "training.max_steps", program: "Accelerate's examples", names: "max_train_steps num_train_steps num_training_steps total_steps training_steps train_steps n_steps num_steps steps"},
	{key: "training.max_steps", program: "torchtune", names: "max_steps_per_epoch"},
	{key: "training.num_train_epochs", program: "axolotl", names: "num_epochs n_epochs epochs epoch"},
	{key: "training.num_train_epochs", program: "Lightning", names: "max_epochs train_epochs"},
	{key: "training.learning_rate", program: "torchtune", names: "lr peak_lr max_lr base_lr learn_rate initial_lr"},
	{key: "training.lr_scheduler", program: "transformers", names: "lr_scheduler_type scheduler scheduler_type lr_schedule schedule lr_decay_style decay_lr"},
	{key: "training.min_lr", program: "transformers", names: "min_learning_rate warmup_min_lr"},
	{key: "training.min_lr_ratio", program: "transformers", names: "min_lr_rate cos_min_ratio lr_min_ratio"},
	{key: "training.lr_cycles", program: "transformers", names: "num_cycles"},
	{key: "training.lr_timescale", program: "transformers", names: "timescale"},
	{key: "training.lr_decay_steps", program: "transformers", names: "num_decay_steps decay_steps cooldown_steps"},
	{key: "training.lr_decay_ratio", program: "torchtitan", names: "decay_ratio lr_wsd_decay_fraction"},
	{key: "training.lr_decay_type", program: "transformers", names: "decay_type"},
	{key: "training.warmup_steps", program: "nanoGPT", names: "warmup_iters"},
	{key: "training.warmup_steps", program: "torchtune", names: "num_warmup_steps lr_warmup_steps warmup warmup_num_steps lr_warmup_iters"},
	{key: "training.warmup_ratio", program: "Megatron", names: "lr_warmup_fraction warmup_fraction warmup_proportion"},
	{key: "training.weight_decay", program: "fastai", names: "wd l2"},
	{key: "training.betas", program: "transformers", names: "adam_beta1 adam_beta2 beta1 beta2 adam_betas", note: "a list of both"},
	{key: "training.eps", program: "transformers", names: "adam_epsilon adam_eps epsilon"},
	{key: "training.max_grad_norm", program: "DeepSpeed", names: "gradient_clipping"},
	{key: "training.max_grad_norm", program: "Lightning", names: "gradient_clip_val gradient_clip grad_norm_clip"},
	{key: "training.max_grad_norm", program: "torchtune and nanoGPT", names: "clip_grad_norm grad_clip clip_grad clip max_norm gradient_clip_norm"},
	{key: "training.seed", program: "other programs", names: "random_seed data_seed rng_seed manual_seed"},
	{key: "training.eval_every_n_steps", program: "transformers", names: "eval_steps evaluation_steps eval_strategy evaluation_strategy do_eval eval_every"},
	{key: "training.eval_every_n_steps", program: "nanoGPT", names: "eval_interval val_check_interval val_every"},
	{key: "training.eval_every_n_epochs", program: "axolotl", names: "evals_per_epoch", note: "its inverse"},
	{key: "training", program: "transformers", names: "train trainer training_args training_arguments train_args hyperparameters hyperparams hparams train_config training_config trainer_args"},
	{key: "training.optimizer", program: "transformers", names: "optim optimiser optimizer_type optimizer_name"},
	{key: "training.parameter_groups", program: "torch.optim", names: "param_groups params_groups"},
	{key: "training.ema.decay", program: "timm", names: "model_ema_decay ema_decay"},

	{key: "data.sequence_length", program: "transformers", names: "max_seq_length max_length model_max_length max_source_length"},
	{key: "data.sequence_length", program: "nanoGPT and transformers' examples", names: "block_size"},
	{key: "data.sequence_length", program: "axolotl", names: "sequence_len max_sequence_length max_sequence_len"},
	{key: "data.sequence_length", program: "LLaMA-Factory", names: "cutoff_len"},
	{key: "data.sequence_length", program: "torchtune and torchtitan", names: "max_seq_len seq_len seq_length seq context_length context_len ctx_len n_ctx"},
	{key: "data.path", program: "transformers' examples", names: "train_file train_files dataset_name dataset_path train_dataset dataset_name_or_path dataset_id"},
	{key: "data.path", program: "LLaMA-Factory", names: "dataset_dir data_files data_dir data_file data_path train_data train_path train_data_path training_data input_file text_file"},
	{key: "data", program: "torchtune and axolotl", names: "dataset datasets data_config dataset_config"},
	{key: "data.eval_path", program: "transformers' examples", names: "validation_file eval_file val_file eval_dataset validation_dataset val_dataset test_datasets eval_data val_data validation_data val_path valid_path eval_data_path dev_file"},
	{key: "data.eval_fraction", program: "LLaMA-Factory", names: "val_size val_split test_size validation_split valid_fraction"},
	{key: "data.eval_fraction", program: "axolotl", names: "val_set_size"},
	{key: "data.eval_fraction", program: "transformers' examples", names: "validation_split_percentage", note: "a share: 5 is 0.05"},
	{key: "data.text_field", program: "TRL", names: "dataset_text_field text_column text_column_name text_key"},
	{key: "data.tokenizer", program: "transformers", names: "tokenizer_name tokenizer_name_or_path tokenizer_path tokenizer_config tokenizer_dir"},
	{key: "data.packing", program: "axolotl", names: "sample_packing"},
	{key: "data.packing", program: "torchtune", names: "packed pack"},
	{key: "data.document_mask", program: "LLaMA-Factory", names: "neat_packing"},
	{key: "data.train_on", program: "axolotl", names: "train_on_inputs train_on_input train_on_prompt", note: "true is all, false is answers"},
	{key: "data.chat_template", program: "LLaMA-Factory", names: "template"},
	{key: "data.format", program: "other programs", names: "dataset_format data_format dataset_type file_type"},
	{key: "data.drop_last", program: "transformers", names: "dataloader_drop_last"},
	{key: "data.pad_to_longest", program: "axolotl", names: "pad_to_sequence_len", note: "its opposite"},
	{key: "data.cache_dir", program: "axolotl", names: "dataset_prepared_path data_cache"},

	{key: "model.path", program: "transformers", names: "model_name_or_path model_name pretrained_model_name_or_path model_id pretrained_model pretrained"},
	{key: "model.path", program: "axolotl", names: "base_model base_model_config model_path model_dir"},
	{key: "model.path", program: "nanoGPT", names: "init_from"},
	{key: "model.config", program: "transformers", names: "config_name model_config"},
	{key: "model.inline", program: "nanoGPT", names: "n_layer n_head n_embd hidden_size num_hidden_layers num_attention_heads hidden_dim num_layers num_heads", note: "keys of config.json"},
	{key: "model", program: "other programs", names: "network net architecture llm model_args"},

	{key: "parallel.strategy", program: "transformers", names: "fsdp sharding_strategy fsdp_sharding_strategy distributed_type zero_stage sharding distributed_strategy"},
	{key: "parallel", program: "torchtitan", names: "parallelism distributed fsdp_config zero_optimization ddp dist parallelism_config"},
	{key: "parallel.mesh.shard", program: "torchtitan", names: "data_parallel_shard_degree dp_shard dp_shard_size"},
	{key: "parallel.mesh.replicate", program: "torchtitan", names: "data_parallel_replicate_degree dp_replicate dp_replicate_size"},
	{key: "parallel.backend", program: "transformers", names: "ddp_backend dist_backend"},
	{key: "parallel.timeout_seconds", program: "transformers", names: "ddp_timeout"},

	{key: "precision.param_dtype", program: "transformers", names: "bf16 bfloat16", note: "bfloat16 here"},
	{key: "precision.param_dtype", program: "transformers", names: "fp16 float16 half", note: "float16 here"},
	{key: "precision.param_dtype", program: "torchtune and Accelerate", names: "dtype mixed_precision amp torch_dtype use_amp compute_dtype mixed_precision_param"},
	{key: "activation_checkpointing.enabled", program: "transformers", names: "gradient_checkpointing enable_activation_checkpointing use_gradient_checkpointing recompute"},
	{key: "activation_checkpointing", program: "torchtitan", names: "activation_checkpoint"},

	{key: "checkpoint.save_every_n_steps", program: "transformers", names: "save_steps save_strategy save_freq checkpointing_steps checkpoint_every save_every"},
	{key: "checkpoint.save_every_n_steps", program: "torchtitan", names: "interval save_interval checkpoint_interval"},
	{key: "checkpoint.save_every_n_epochs", program: "axolotl", names: "saves_per_epoch", note: "its inverse"},
	{key: "checkpoint.keep_last_n", program: "transformers", names: "save_total_limit keep_last max_to_keep"},
	{key: "checkpoint.keep_last_n", program: "torchtitan", names: "keep_latest_k"},
	{key: "checkpoint.async", program: "torchtitan", names: "async_mode async_save async_checkpoint"},
	{key: "checkpoint.keep_best", program: "PyTorch Lightning", names: "save_top_k"},
	{key: "checkpoint.keep_every_n_steps", program: "Megatron-LM", names: "save_retain_interval retain_interval"},
	{key: "checkpoint.save_every_n_minutes", program: "PyTorch Lightning", names: "train_time_interval"},
	{key: "training.max_minutes", program: "Megatron-LM and PyTorch Lightning", names: "max_time exit_duration_in_mins time_limit"},
	{key: "checkpoint.dir", program: "torchtitan", names: "folder checkpoint_dir checkpoint_path save_dir"},
	{key: "checkpoint", program: "torchtune", names: "checkpointer checkpointing checkpoints save"},
	{key: "logging.log_every_n_steps", program: "transformers", names: "logging_steps"},
	{key: "logging.log_every_n_steps", program: "torchtitan and nanoGPT", names: "log_freq log_interval log_every log_steps log_every_n logging_interval"},
	{key: "logging.tensorboard", program: "transformers", names: "report_to use_tensorboard enable_tensorboard"},
	{key: "logging.wandb.mode", program: "transformers", names: "use_wandb wandb_log wandb_mode", note: "offline here, for wandb sync"},
	{key: "logging.wandb.project", program: "nanoGPT and axolotl", names: "wandb_project"},
	{key: "logging.wandb.entity", program: "axolotl", names: "wandb_entity"},
	{key: "logging.wandb.name", program: "axolotl", names: "wandb_name wandb_run_name wandb_run_id"},
	{key: "logging.wandb", program: "DeepSpeed", names: "wandb"},
	{key: "logging.mlflow.url", program: "axolotl", names: "mlflow_tracking_uri"},
	{key: "logging.mlflow.experiment", program: "axolotl", names: "mlflow_experiment_name"},
	{key: "logging.trackio.project", program: "transformers", names: "trackio_project trackio_space_id"},
	{key: "logging.comms_table", program: "DeepSpeed", names: "comms_logger"},
	{key: "logging.flops_profile_step", program: "DeepSpeed", names: "flops_profiler profile_step"},
	{key: "logging.csv", program: "DeepSpeed", names: "csv_monitor"},
	{key: "logging", program: "torchtune", names: "metric_logger logger log logs metrics monitoring"},
	{key: "output_dir", program: "nanoGPT", names: "out_dir out output"},
	{key: "output_dir", program: "transformers", names: "logging_dir output_path output_directory dump_folder results_dir work_dir"},
	{key: "move_aside", program: "transformers", names: "overwrite_output_dir overwrite"},
	{key: "name", program: "transformers", names: "run_name experiment_name exp_name"},
	{key: "resume", program: "transformers", names: "resume_from_checkpoint resume_from load_checkpoint"},
	{key: "device.name", program: "transformers", names: "no_cuda use_cpu accelerator"},
	{key: "device.threads", program: "other programs", names: "num_threads n_threads cpu_threads omp_num_threads"},
	{key: "device.numa", program: "torchrun, Accelerate and DeepSpeed", names: "numa_binding numa_affinity cpu_affinity enable_cpu_affinity bind_cores_to_rank"},
	{key: "device.memory_fraction", program: "TensorFlow, JAX and vLLM", names: "gpu_memory_fraction per_process_gpu_memory_fraction xla_python_client_mem_fraction gpu_memory_utilization"},
	{key: "device.preallocate", program: "JAX", names: "xla_python_client_preallocate"},
	{key: "device.float32_matmul", program: "transformers and PyTorch", names: "tf32 allow_tf32 float32_matmul_precision matmul_precision", note: "high is the nearest to TF32"},
	{key: "device", program: "other programs", names: "hardware"},
	{names: "gpu_ids cuda_visible_devices visible_devices", note: "the environment variable CUDA_VISIBLE_DEVICES selects GPUs"},

	{names: "lora lora_r lora_rank lora_alpha lora_dropout lora_target_modules use_lora qlora adapter peft peft_config finetuning_type load_in_8bit load_in_4bit quantization quantization_config bnb_config", note: "adapters (LoRA) and quantized weights are not supported. model.freeze lists frozen parameters"},
	{names: "flash_attention flash_attn use_flash_attn use_flash_attention attn_implementation xformers_attention sdp_attention", note: "attention is always tiled. remove it"},
	{names: "compile torch_compile", note: "nothing is compiled. remove it"},
	{names: "num_workers dataloader_num_workers preprocessing_num_workers dataset_num_proc dataset_processes pin_memory", note: "ranks load data themselves. remove it"},
	{key: fault.Ranks, names: "num_gpus n_gpus gpus devices num_devices num_nodes nproc num_processes world_size nproc_per_node"},
	{names: "do_train do_predict prediction_loss_only remove_unused_columns fp16_opt_level overwrite_cache plot_loss greater_is_better stage model_type tokenizer_type eval_iters always_save_checkpoint component loss use_fast_tokenizer trust_remote_code auto_find_batch_size eval_accumulation_steps save_safetensors logging_first_step lr_scheduler_kwargs", note: "there is no such setting. remove it"},
	{names: "max_samples max_train_samples max_eval_samples", note: "there is no such setting. training.max_steps ends a run early"},
	{names: "pad_to_multiple_of pad_to_max_length padding group_by_length length_grouped", note: "rows are not padded, and work is balanced between ranks. remove it"},
	{names: "special_tokens added_tokens", note: "the tokenizer defines special tokens (data.tokenizer)"},
	{names: "ddp_find_unused_parameters find_unused_parameters", note: "unused parameters need no setting. remove it"},
	{names: "label_smoothing label_smoothing_factor push_to_hub hub_model_id neftune_noise_alpha tensor_parallel_size tensor_model_parallel_size pipeline_model_parallel_size pipeline_parallel_degree tensor_parallel_degree", note: "it is not supported"},
	{names: "deepspeed deepspeed_config", note: "DeepSpeed files are read unchanged. try: --config ds_config.json"},
	{names: "config_file", note: "Accelerate files are read unchanged. try: --config accelerate.yaml"},
	{names: "local_rank node_rank machine_rank master_addr master_port main_process_ip main_process_port", note: "the launcher sets it in the environment. remove it"},
}

// aliasByName indexes aliases by folded name.
var aliasByName = sync.OnceValue(func() map[string]alias {
	out := map[string]alias{}
	for _, k := range aliases {
		for _, name := range strings.Fields(k.names) {
			out[fold(name)] = k
		}
	}
	return out
})

func fold(s string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
}

// Suggest returns the key (or fault.Ranks) that another program calls by the last part of path, and an
// addition to the message, such as " (lr in torchtune)". For a known name without a key, meant is empty
// and why is the reason; for an unknown name both are empty.
func Suggest(path string) (meant, why string) {
	name := Name(path)
	k, ok := aliasByName()[fold(name)]
	switch {
	case !ok:
		return "", ""
	case k.key == "" || k.key == fault.Ranks:
		return k.key, k.note
	case k.note != "":
		return k.key, fmt.Sprintf(" (%s in %s; %s)", name, k.program, k.note)
	}
	return k.key, fmt.Sprintf(" (%s in %s)", name, k.program)
}
