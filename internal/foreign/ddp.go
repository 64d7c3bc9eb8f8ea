package foreign

import "trireme/optim"

// ddpFormat is the YAML of a trainer of sequence classifiers with PyTorch's DistributedDataParallel.
func ddpFormat() *format {
	return &format{
		name: DDP, owner: "the DDP trainer's", flat: true,
		signs: []string{
			"training.model_name", "training.batch_size_per_gpu", "training.num_epochs", "training.use_amp",
			"distributed.backend", "distributed.find_unused_parameters", "distributed.gradient_as_bucket_view", "distributed.static_graph",
		},
		keys: keys{
			"training": group(trainingKeys()),
			"distributed": group(keys{
				"backend":                 transport(),
				"find_unused_parameters":  ignored("unused parameters get zero gradients without a search"),
				"gradient_as_bucket_view": constant("true", "gradients are always views of their buckets"),
				"static_graph":            noEffect("the graph may change between steps"),
			}),
			"checkpointing": group(savingKeys()),
			"logging":       group(loggingKeys()),
		},
		read: readDDP,
	}
}

func readDDP(r *reader) {
	r.byDefault(trainerDefault,
		"training.micro_batch_size", "16", "training.gradient_accumulation_steps", "4", "training.num_train_epochs", "3",
		"training.learning_rate", "2e-5", "training.lr_scheduler", "linear", "training.warmup_ratio", "0.1", "training.weight_decay", "0.01",
		"training.betas", "[0.9, 0.999]", "training.eps", "1e-8", "training.max_grad_norm", "1.0", // torch's AdamW
		"data.path", "stanfordnlp/imdb", "data.packing", "false", "data.sequence_length", "512", "data.truncate", "true", "data.pad_to_longest", "true",
		"data.drop_last", "true", // it drops an incomplete accumulation
		"parallel.strategy", "no_shard", "logging.log_every_n_steps", "100",
		"training.eval_every_n_epochs", "1", "checkpoint.save_every_n_epochs", "1",
	)
	r.modelByDefault("bert-base-uncased", "sequence_classification")
	r.saveDefaults()
	if k, ok := r.find("distributed"); ok {
		r.mode(k, "of DDP", "ddp")
	} else if k, ok := r.find("training"); ok {
		r.mode(k, "of DDP", "ddp")
	}
	if !hasKey(r, "training", "use_amp") {
		r.byDefault(trainerDefault, "precision.param_dtype", "float16", "precision.loss_scaling.kind", string(optim.TorchScaler))
	}
	r.walk(r.doc, "", r.format.keys)
}
