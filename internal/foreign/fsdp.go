package foreign

var strategies = map[string]string{
	"FULL_SHARD": "full_shard", "SHARD_GRAD_OP": "shard_grad_op", "NO_SHARD": "no_shard",
	"HYBRID_SHARD": "hybrid_shard", "_HYBRID_SHARD_ZERO2": "hybrid_shard_zero2", "HYBRID_SHARD_ZERO2": "hybrid_shard_zero2",
}

var floats = map[string]string{
	"float32": "float32", "fp32": "float32", "torch.float32": "float32", "no": "float32",
	"bfloat16": "bfloat16", "bf16": "bfloat16", "torch.bfloat16": "bfloat16",
	"float16": "float16", "fp16": "float16", "torch.float16": "float16",
}

// Reasons for keys of several formats.
const (
	unitIsLayer = "each layer is a unit"
	ownNames    = "parameters always keep their names and shapes"
	sameInitial = "all ranks always start with the same parameters"
	noGPU       = "GPUs only"
	ownPrefetch = "data is always prefetched"
	sameBits    = "runs are always deterministic"
)

// fsdpFormat is the YAML of a trainer of causal language models with PyTorch's
// FullyShardedDataParallel.
func fsdpFormat() *format {
	return &format{
		name: FSDP, owner: "the FSDP trainer's", flat: true,
		signs: []string{
			"training.model_name", "training.batch_size_per_gpu", "training.num_epochs", "training.max_length",
			"fsdp", "mixed_precision", "activation_checkpointing.checkpoint_every_n_layers",
		},
		keys: keys{
			"training": group(trainingKeys()),
			"fsdp": group(keys{
				"sharding_strategy":  custom("`parallel.strategy`", shardingStrategy),
				"cpu_offload":        offloadToHost("optimizer", "params"),
				"backward_prefetch":  backwardPrefetch(),
				"forward_prefetch":   constant("true", prefetched),
				"auto_wrap_policy":   named(unitIsLayer, []string{"transformer_based", "no_wrap"}, "size_based"),
				"min_num_params":     noEffect(unitIsLayer),
				"use_orig_params":    constant("true", ownNames),
				"sync_module_states": constant("true", sameInitial),
				"limit_all_gathers":  constant("true", gatherLimit),
			}),
			"activation_checkpointing": group(keys{
				"enabled":                      to("activation_checkpointing.enabled", boolean),
				"use_activation_checkpointing": to("activation_checkpointing.enabled", boolean), // its name in the trainer
				"checkpoint_every_n_layers":    to("activation_checkpointing.every_n_layers", integer),
			}),
			"mixed_precision": group(keys{
				"param_dtype":  enum("precision.param_dtype", floats),
				"reduce_dtype": enum("precision.reduce_dtype", floats),
				"buffer_dtype": enum("precision.buffer_dtype", floats),
			}),
			"distributed":   group(keys{"backend": transport()}),
			"checkpointing": group(savingKeys()),
			"logging":       group(loggingKeys()),
		},
		read: readFSDP,
	}
}

func readFSDP(r *reader) {
	r.byDefault(trainerDefault,
		"training.micro_batch_size", "2", "training.gradient_accumulation_steps", "8", "training.num_train_epochs", "1",
		"training.learning_rate", "1e-5", "training.lr_scheduler", "constant", "training.weight_decay", "0.1",
		"training.betas", "[0.9, 0.95]", "training.eps", "1e-8", "training.max_grad_norm", "1.0",
		"data.path", "Salesforce/wikitext/wikitext-2-raw-v1", "data.packing", "false", "data.sequence_length", "2048", "data.truncate", "true", "data.pad_to_longest", "true",
		"data.drop_last", "true", // it drops an incomplete accumulation
		"parallel.strategy", "full_shard", "activation_checkpointing.enabled", "true",
		"precision.param_dtype", "bfloat16", "precision.reduce_dtype", "float32", "precision.buffer_dtype", "float32",
		"checkpoint.state_dict_type", "sharded", "logging.log_every_n_steps", "10",
	)
	if !r.options.Data {
		r.byDefault(trainerDefault, "data.split", "train[:1000]") // of its own data
	}
	r.modelByDefault("meta-llama/Llama-2-7b-hf", "causal_lm")
	r.saveDefaults()
	if _, named := r.find("fsdp", "sharding_strategy"); !named {
		if k, ok := r.find("fsdp"); ok {
			r.mode(k, "of FSDP", "fsdp")
		} else if k, ok := r.find("training"); ok {
			r.mode(k, "of FSDP", "fsdp")
		}
	}
	r.walk(r.doc, "", r.format.keys)
}

// shardingStrategy assigns FSDP's strategy. NO_SHARD also fits --mode ddp.
func shardingStrategy(r *reader, k key) {
	name, ok := r.choose(k, strategies)
	if !ok {
		return
	}
	fits := []string{"fsdp"}
	if name == "no_shard" {
		fits = append(fits, "ddp")
	}
	r.mode(k, k.Text+" of FSDP", fits...)
	r.assign(k, "parallel.strategy", name)
}
