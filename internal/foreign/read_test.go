package foreign_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"trireme/internal/conf"
	"trireme/internal/foreign"
	"trireme/train"
)

// TestRefused checks that errors and contradictions have their position and a suggestion.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name, text string
		o          foreign.Options
		want       []string // parts of the message
	}{
		{name: "unknown key", text: "training:\n  batch_size_per_gpu: 2\n  num_epoch: 3\ndistributed: {backend: nccl}\n",
			want: []string{`x.yaml:3:3: unknown key "num_epoch" under training in the DDP trainer's file. did you mean "num_epochs"?`}},
		{name: "unknown key without groups", text: "training:\nbatch_size_per_gpu: 2\nnum_epoch: 3\ndistributed:\nstatic_graph: true\n",
			want: []string{`x.yaml:3:1: unknown key "num_epoch" at the top level in the DDP trainer's file. did you mean "num_epochs"?`}},
		{name: "another format's key", text: "training: {batch_size_per_gpu: 2}\nfsdp: {sharding_strategy: FULL_SHARD, cpu_offload: false}\ndistributed: {static_graph: true}\n",
			want: []string{`unknown key "static_graph" under distributed in the FSDP trainer's file. the DDP trainer's files have it`}},
		{name: "wrong type", text: "training: {batch_size_per_gpu: lots, num_epochs: [3]}\ndistributed: {static_graph: true}\n",
			want: []string{`x.yaml:1:12: training.batch_size_per_gpu: "lots" is not an integer`, `training.num_epochs: a list is not a number`}},
		{name: "no value", text: "training:\n  batch_size_per_gpu:\n  model_name: m\ndistributed: {static_graph: true}\n",
			want: []string{"x.yaml:2:3: training.batch_size_per_gpu has no value"}},
		{name: "not a group", text: "training: {batch_size_per_gpu: 1}\ndistributed: {static_graph: true}\nlogging: often\n",
			want: []string{`x.yaml:3:1: logging is often, not a group of keys (log_every_n_steps`}},
		{name: "a choice", text: "fsdp: {sharding_strategy: FUL_SHARD}\n", want: []string{`fsdp.sharding_strategy: "FUL_SHARD" is not one of`, `did you mean "FULL_SHARD"?`}},
		{name: "not YAML", text: "training: {batch_size_per_gpu: 1\n", want: []string{"x.yaml:1:11: "}},
		{name: "not JSON", text: "{\n  \"zero_optimization\": {\"stage\" 3}\n}\n", want: []string{"x.yaml:2:"}},
		{name: "stage without its group", text: `{"zero_optimization": 2, "fp16": true}`,
			want: []string{`x.yaml:1:2: zero_optimization is 2, not a group of keys. try: {"stage": 2}`, `min_loss_scale). try: {"enabled": true}`}},
		{name: "the name of another program", text: `{"optimizer": {"type": "AdamW", "params": {"learning_rate": 1e-3}}, "zero_optimization": {}}`,
			want: []string{`unknown key "learning_rate" under optimizer.params in DeepSpeed's file. did you mean "lr"?`}},
		{name: "a key of nobody", text: `{"zero_optimization": {"my_knob": 2}}`,
			want: []string{`unknown key "my_knob" under zero_optimization in DeepSpeed's file. try: remove it, or a key that docs/files-of-other-programs.md lists`}},
		{name: "given twice", text: "{\"gradient_clipping\": 1,\n\"gradient_clipping\": 2}", want: []string{`x.yaml:2: duplicate key "gradient_clipping", first at line 1`}},
		{name: "TOML", text: "# a job\n[job]\nx = 1\n", want: []string{"x.yaml is TOML"}},
		{name: "not text", text: "\x00\x01", want: []string{"a NUL byte"}},
		{name: "DDP or FSDP", text: "training: {batch_size_per_gpu: 2, learning_rate: 1e-5}\n",
			want: []string{"x.yaml has keys of the DDP trainer's and of the FSDP trainer's. try: --mode ddp, or --mode fsdp"}},
		{name: "own or another's", text: "data: {path: x}\ntraining: {max_steps: 3}\ndistributed: {static_graph: true, backend: nccl}\n",
			want: []string{"x.yaml has keys of this program's own and of the DDP trainer's. try: --config_format native, or --mode ddp"}},
		{name: "asked for", text: "training: {micro_batch_size: 2}\n", o: foreign.Options{Format: foreign.DDP}, want: []string{`unknown key "micro_batch_size" under training in the DDP trainer's file. this program's own files have it`}},

		{name: "DDP's with --mode fsdp", text: "training: {model_name: m}\ndistributed: {static_graph: true}\n", o: foreign.Options{Mode: "fsdp"},
			want: []string{"x.yaml:2:1: distributed is of DDP, but --mode is fsdp. try: --mode ddp"}},
		{name: "FSDP's with --mode ddp", text: "fsdp:\n  sharding_strategy: SHARD_GRAD_OP\n", o: foreign.Options{Mode: "ddp"},
			want: []string{"x.yaml:2:3: fsdp.sharding_strategy is SHARD_GRAD_OP of FSDP, but --mode is ddp"}},
		{name: "DeepSpeed's with --mode ddp", text: `{"zero_optimization": {"stage": 1}}`, o: foreign.Options{Mode: "ddp"}, want: []string{"zero_optimization is of DeepSpeed, but --mode is ddp"}},
		{name: "Accelerate's with another mode", text: "distributed_type: FSDP\nfsdp_config: {}\n", o: foreign.Options{Mode: "deepspeed"}, want: []string{"distributed_type is FSDP, but --mode is deepspeed"}},
		{name: "ours with --mode ddp", text: "parallel: {strategy: zero_3}\n", o: foreign.Options{Mode: "ddp"}, want: []string{"parallel.strategy is zero_3, but --mode ddp means no_shard"}},
		{name: "FSDP not used with --mode fsdp", text: "distributed: {use_fsdp: false}\n", o: foreign.Options{Mode: "fsdp"}, want: []string{"distributed.use_fsdp is no sharding, but --mode is fsdp"}},

		{name: "bf16 and float32", text: "distributed: {use_fsdp: true, fsdp_param_dtype: float32}\ntraining: {bf16: true}\n", want: []string{"training.bf16 is true, but distributed.fsdp_param_dtype at x.yaml:1:31 is float32. try: one of them"}},
		{name: "a weight of the divergence", text: "model: {latent_dim: 8}\ntraining: {beta_kl: 0.5}\n", want: []string{`training.beta_kl is "0.5": the loss is cross-entropy plus the KL divergence above the free bits, unweighted. try: 1`}},
		{name: "a split elsewhere", text: "model: {latent_dim: 8, num_layers: 8, split_layer: 3}\n", want: []string{"model.split_layer is 3: the latent is injected in the middle of 8 layers, after layer 4. try: 4"}},
		{name: "another network", text: "model: {latent_dim: 8, use_rope: false}\n", want: []string{"model.use_rope is \"false\""}},

		{name: "the triple", text: "{\n \"train_micro_batch_size_per_gpu\": 4,\n \"train_batch_size\": 96,\n \"gradient_accumulation_steps\": 4\n}", o: foreign.Options{Ranks: 8},
			want: []string{"x.yaml:3:2: train_batch_size: 96 is not train_micro_batch_size_per_gpu 4 x gradient_accumulation_steps 4 x 8 ranks = 128. try: train_batch_size 128, or gradient_accumulation_steps 3"}},
		{name: "the triple by rows", text: `{"train_micro_batch_size_per_gpu": 4, "train_batch_size": 48, "gradient_accumulation_steps": 3}`, o: foreign.Options{Ranks: 8},
			want: []string{"= 96. try: train_batch_size 96, or train_micro_batch_size_per_gpu 2"}},
		{name: "the triple either way", text: `{"train_micro_batch_size_per_gpu": 4, "train_batch_size": 7, "gradient_accumulation_steps": 3}`,
			want: []string{"= 12. try: train_batch_size 12, or gradient_accumulation_steps \"auto\""}},
		{name: "does not divide", text: `{"train_micro_batch_size_per_gpu": 3, "train_batch_size": 100}`, o: foreign.Options{Ranks: 8},
			want: []string{"100 is not divisible by train_micro_batch_size_per_gpu 3 x 8 ranks. try: train_batch_size 96 or 120"}},
		{name: "fewer rows than ranks", text: `{"train_batch_size": 3}`, o: foreign.Options{Ranks: 8}, want: []string{"3 is not divisible by 8 ranks. try: train_batch_size 8,"}},
		{name: "no rows", text: `{"train_batch_size": 0}`, want: []string{"train_batch_size is 0: it must be between 1 and"}},
		{name: "16-bit twice", text: `{"fp16": {"enabled": true}, "bf16": {"enabled": true}}`, want: []string{"bf16.enabled is true, and so is fp16.enabled at x.yaml:1:11. try: one of them"}},
		{name: "16-bit twice in a Free Transformer", text: "model: {latent_dim: 8}\ntraining: {bf16: true, fp16: true}\n", want: []string{"training.fp16 is true, and so is bf16 at x.yaml:2:12. try: one of them"}},
		{name: "masters of 16 bits", text: `{"fp16": {"enabled": true, "fp16_master_weights_and_grads": true}}`, want: []string{"master weights and accumulated gradients are float32"}},
		{name: "a scale that is no number", text: `{"fp16": {"enabled": true, "loss_scale": "much"}}`, want: []string{"fp16.loss_scale: "}},
		{name: "another optimizer", text: `{"optimizer": {"type": "OneBitAdam"}, "zero_optimization": {}}`, want: []string{`x.yaml:1:16: optimizer.type: OneBitAdam is not supported; AdamW, Adam, SGD, Lion, Adagrad, Lamb and Muon are. try: "type": "AdamW"`}},
		{name: "another schedule", text: `{"scheduler": {"type": "OneCycle"}, "zero_optimization": {}}`, want: []string{`scheduler.type: OneCycle is not supported. try: "WarmupCosineLR", or`}},
		{name: "a parameter of the cosine", text: `{"scheduler": {"type": "WarmupLR", "params": {"cos_min_ratio": 0.1}}, "zero_optimization": {}}`, want: []string{`scheduler.params.cos_min_ratio is a parameter of WarmupCosineLR, not of this scheduler. try: remove the key`}},
		{name: "a parameter that the cosine lacks", text: `{"scheduler": {"type": "WarmupCosineLR", "params": {"warmup_max_lr": 0.1}}, "zero_optimization": {}}`, want: []string{`scheduler.params.warmup_max_lr is a parameter of WarmupLR and WarmupDecayLR`}},
		{name: "a fifth stage", text: `{"zero_optimization": {"stage": 4}}`, want: []string{"zero_optimization.stage: 4 is not one of 0, 1, 2, 3"}},
		{name: "fewer bits", text: `{"zero_optimization": {"stage": 3, "zero_quantized_weights": true}}`, want: []string{"zero_quantized_weights is \"true\""}},
		{name: "MiCS of stage 2", text: `{"zero_optimization": {"stage": 2, "mics_shard_size": 2}}`, want: []string{"mics_shard_size is 2, but stage is 2"}},
		{name: "parameters elsewhere at stage 2", text: `{"zero_optimization": {"stage": 2, "offload_param": {"device": "nvme"}}}`, want: []string{"x.yaml:1:54: zero_optimization.offload_param.device is nvme, but stage is 2", "try: none, or stage 3"}},
		{name: "elsewhere", text: `{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvm"}}}`, want: []string{`offload_optimizer.device: "nvm" is not one of cpu, none, nvme. did you mean "nvme"?`}},
		{name: "a list for a stage", text: `{"zero_optimization": {"stage": [3]}}`, want: []string{"zero_optimization.stage: a list is not an integer"}},
		{name: "sparse attention", text: `{"sparse_attention": {"enabled": true}, "zero_optimization": {}}`, want: []string{"sparse_attention: sparse attention is not supported. try: remove the key"}},
		{name: "a mistyped key of JSON", text: `{"zero_optimization": {"stag": 3}}`, want: []string{`x.yaml:1:24: unknown key "stag" under zero_optimization in DeepSpeed's file. did you mean "stage"?`}},
		{name: "Megatron", text: "distributed_type: MEGATRON_LM\nnum_processes: 2\n", want: []string{"distributed_type is Megatron-LM: tensor and pipeline parallelism are not supported"}},
		{name: "a mistyped type", text: "distributed_type: FSPD\nnum_processes: 2\n", want: []string{`distributed_type: "FSPD" is not one of`, `did you mean "FSDP"?`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, err := foreign.Read("x.yaml", c.text, c.o)
			if err == nil {
				_, err = conf.Load(train.Default(), file.Source)
				t.Fatalf("it is read as %s, and then %v", file.Format, err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error is\n%v\nwithout\n%s", err, want)
				}
			}
		})
	}
}

// TestValues checks the assignments of single keys.
func TestValues(t *testing.T) {
	for _, c := range []struct {
		name, text string
		o          foreign.Options
		format     foreign.Format
		want       string // paths and values
	}{
		{name: "ours", text: "training: {max_steps: 3}\n", format: foreign.Native, want: "training.max_steps=3 parallel.strategy=full_shard"},
		{name: "ours by name", text: "training: {max_steps: 3}\n", o: foreign.Options{Format: foreign.Native}, format: foreign.Native, want: "training.max_steps=3"},
		{name: "nothing", text: "", format: foreign.Native, want: "training.max_steps=0"},
		{name: "mode decides", text: "training: {batch_size_per_gpu: 2}\n", o: foreign.Options{Mode: "fsdp"}, format: foreign.FSDP, want: "training.micro_batch_size=2 parallel.strategy=full_shard training.gradient_accumulation_steps=8"},
		{name: "mode decides otherwise", text: "training: {batch_size_per_gpu: 2}\n", o: foreign.Options{Mode: "ddp"}, format: foreign.DDP, want: "parallel.strategy=no_shard training.gradient_accumulation_steps=4"},
		{name: "a text for a number", text: "training: {learning_rate: \"2e-5\", model_name: m}\ndistributed: {backend: gloo}\n", format: foreign.DDP, want: "training.learning_rate=2.0e-05 parallel.backend=auto"},
		{name: "NO_SHARD is DDP too", text: "fsdp: {sharding_strategy: NO_SHARD}\n", o: foreign.Options{Mode: "ddp"}, format: foreign.FSDP, want: "parallel.strategy=no_shard"},
		{name: "checkpoints beside", text: "checkpointing: {checkpoint_dir: here}\ndistributed: {backend: nccl}\n", format: foreign.DDP, want: "checkpoint.dir=here"},
		{name: "checkpoints in the output", text: "checkpointing: {checkpoint_dir: here}\ndistributed: {backend: nccl}\n", o: foreign.Options{OutputDir: true}, format: foreign.DDP, want: `checkpoint.dir=""`},
		{name: "no autocast", text: "training: {use_amp: false}\ndistributed: {backend: nccl}\n", format: foreign.DDP, want: "precision.param_dtype=float32 precision.loss_scaling.kind=auto"},
		{name: "autocast by default", text: "training: {batch_size_per_gpu: 2}\ndistributed: {backend: nccl}\n", o: foreign.Options{Mode: "ddp"}, format: foreign.DDP, want: "precision.param_dtype=float16 precision.loss_scaling.kind=torch"},
		{name: "the first rows of its own data", text: "fsdp: {sharding_strategy: FULL_SHARD}\n", format: foreign.FSDP, want: `data.split="train[:1000]"`},
		{name: "all rows of other data", text: "fsdp: {sharding_strategy: FULL_SHARD}\n", o: foreign.Options{Data: true}, format: foreign.FSDP, want: `data.split=""`},
		{name: "another model", text: "training: {model_name: theirs}\ndistributed: {backend: nccl}\n", o: foreign.Options{Model: true}, format: foreign.DDP, want: `model.path="" model.task=sequence_classification`},

		{name: "a writer in the background", text: `{"zero_optimization": {"stage": 2}, "nebula": {"enabled": true, "num_of_version_in_retention": 2}}`, format: foreign.DeepSpeed, want: "checkpoint.async=true"},
		{name: "a number of segments", text: `{"zero_optimization": {"stage": 2}, "activation_checkpointing": {"number_checkpoints": 8, "cpu_checkpointing": true}}`, format: foreign.DeepSpeed, want: "activation_checkpointing.enabled=true activation_checkpointing.segments=8"},
		{name: "the mode of a Free Transformer", text: "training: {gradient_clip_norm: 2.0, gradient_checkpointing: true}\n", o: foreign.Options{Mode: "fsdp"}, format: foreign.FreeTransformer, want: "parallel.strategy=full_shard training.max_grad_norm=2.0 activation_checkpointing.enabled=true"},
		{name: "a Free Transformer alone", text: "training: {gradient_clip_norm: 2.0}\n", format: foreign.FreeTransformer, want: "parallel.strategy=no_shard precision.param_dtype=float32"},
		{name: "nats are bits", text: "model: {latent_dim: 8}\ntraining: {kappa_free_bits: 0.6931471805599453}\n", format: foreign.FreeTransformer, want: "model.inline.free_bits=1 model.inline.latent_bits=8 model.inline.hidden_size=4096"},
		{name: "no FSDP", text: "distributed: {use_fsdp: false, fsdp_sharding_strategy: full_shard, fsdp_param_dtype: bfloat16}\n", format: foreign.FreeTransformer, want: "parallel.strategy=no_shard precision.param_dtype=float32"},
		{name: "no mixed precision", text: "distributed: {use_fsdp: true, fsdp_mixed_precision: false, fsdp_param_dtype: bfloat16}\n", format: foreign.FreeTransformer, want: "precision.param_dtype=float32"},
		{name: "bf16 without FSDP", text: "training: {bf16: true}\ndistributed: {use_fsdp: false, fsdp_param_dtype: float32}\n", format: foreign.FreeTransformer, want: "precision.param_dtype=bfloat16 parallel.strategy=no_shard"},
		{name: "bf16 alone", text: "training: {bf16: true}\ndistributed: {use_fsdp: true}\n", format: foreign.FreeTransformer, want: "precision.param_dtype=bfloat16 precision.reduce_dtype=float32"},

		{name: "two of three", text: `{"train_batch_size": 96, "train_micro_batch_size_per_gpu": 4}`, o: foreign.Options{Ranks: 8}, format: foreign.DeepSpeed, want: "training.micro_batch_size=4 training.gradient_accumulation_steps=3 training.global_batch_size=96"},
		{name: "the other two", text: `{"train_batch_size": 96, "gradient_accumulation_steps": 4}`, o: foreign.Options{Ranks: 8}, format: foreign.DeepSpeed, want: "training.micro_batch_size=3 training.gradient_accumulation_steps=4"},
		{name: "one", text: `{"train_batch_size": 96}`, o: foreign.Options{Ranks: 8}, format: foreign.DeepSpeed, want: "training.micro_batch_size=12 training.gradient_accumulation_steps=1"},
		{name: "one of a rank", text: `{"train_micro_batch_size_per_gpu": 4}`, o: foreign.Options{Ranks: 8}, format: foreign.DeepSpeed, want: "training.micro_batch_size=4 training.gradient_accumulation_steps=1 training.global_batch_size=0"},
		{name: "all with auto", text: `{"train_batch_size": 96, "train_micro_batch_size_per_gpu": "auto"}`, format: foreign.DeepSpeed, want: "training.micro_batch_size=1 training.gradient_accumulation_steps=0 training.global_batch_size=96"},
		{name: "1e9 is an integer", text: `{"train_batch_size": 1e2, "zero_optimization": {"stage": 3.0, "sub_group_size": 1e9}}`, format: foreign.DeepSpeed, want: "training.micro_batch_size=100 parallel.strategy=full_shard"},
		{name: "no clipping", text: `{"zero_optimization": {"stage": 1}}`, format: foreign.DeepSpeed, want: "training.eps=1.0e-08 training.betas=[0.9,0.999] training.max_grad_norm=0.0 parallel.strategy=zero_1 training.warmup_ratio=0.1"},
		{name: "clipping as the trainer", text: `{"gradient_clipping": "auto"}`, format: foreign.DeepSpeed, want: "training.max_grad_norm=1.0 parallel.strategy=no_shard"},
		{name: "the scheduler's rate", text: `{"optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 3e-5, "warmup_type": "linear"}}}`, format: foreign.DeepSpeed, want: "training.learning_rate=3.0e-05 training.lr_scheduler=WarmupLR training.warmup_steps=1000 training.warmup_type=linear training.warmup_ratio=0.0"},
		{name: "the scheduler's rate before the optimizer's", text: `{"scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 3e-5}}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}}`, format: foreign.DeepSpeed, want: "training.learning_rate=3.0e-05"},
		{name: "steps of the scheduler", text: `{"scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 7, "total_num_steps": 70, "warmup_min_lr": "auto"}}}`, format: foreign.DeepSpeed, want: "training.warmup_steps=7 training.max_steps=70 training.min_lr=0.0"},
		{name: "a cosine", text: `{"optimizer": {"type": "AdamW", "params": {"lr": 3e-5}}, "scheduler": {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 7, "total_num_steps": 70, "warmup_min_ratio": 0.2, "warmup_type": "linear"}}}`, format: foreign.DeepSpeed, want: "training.learning_rate=3.0e-05 training.lr_scheduler=WarmupCosineLR training.warmup_steps=7 training.max_steps=70 training.min_lr_ratio=0.0001 training.warmup_min_ratio=0.2 training.warmup_type=linear"},
		{name: "a cosine's end", text: `{"scheduler": {"type": "WarmupCosineLR", "params": {"cos_min_ratio": 0.1}}, "zero_optimization": {}}`, format: foreign.DeepSpeed, want: "training.lr_scheduler=WarmupCosineLR training.warmup_steps=1000 training.min_lr_ratio=0.1"},
		{name: "Adam with decay in the gradient", text: `{"optimizer": {"type": "Adam", "params": {"weight_decay": 0.1, "adam_w_mode": false, "betas": [0.8, 0.9], "bias_correction": false}}, "zero_optimization": {}}`, format: foreign.DeepSpeed, want: "training.optimizer.name=adam training.optimizer.bias_correction=false training.betas=[0.8,0.9] training.weight_decay=0.1"},
		{name: "Adam by its other names", text: `{"optimizer": {"params": {"eps": 1e-6}, "type": "DeepSpeedCPUAdam"}, "zero_optimization": {}}`, format: foreign.DeepSpeed, want: "training.optimizer.name=adamw training.eps=1.0e-06 training.weight_decay=0.1"},
		{name: "state in bfloat16", text: `{"bf16": {"enabled": true, "bf16_optimizer_states": true}, "optimizer": {"type": "Adam"}}`, format: foreign.DeepSpeed, want: "training.optimizer.name=adamw_bf16"},
		{name: "Lamb", text: `{"optimizer": {"params": {"max_coeff": 5, "eps": 1e-6}, "type": "Lamb"}, "zero_optimization": {}}`, format: foreign.DeepSpeed, want: "training.optimizer.name=lamb training.optimizer.max_coeff=5 training.optimizer.eps=1.0e-06 training.optimizer.betas=[0.9,0.999] training.learning_rate=0.001 training.weight_decay=0.0"},
		{name: "Lion", text: `{"optimizer": {"type": "Lion", "params": {"lr": 1e-4, "betas": [0.95, 0.98], "weight_decay": 0.2}}, "zero_optimization": {}}`, format: foreign.DeepSpeed, want: "training.optimizer.name=lion training.optimizer.betas=[0.95,0.98] training.learning_rate=0.0001 training.weight_decay=0.2"},
		{name: "Lion's own", text: `{"optimizer": {"type": "FusedLion"}, "zero_optimization": {}}`, format: foreign.DeepSpeed, want: "training.optimizer.name=lion training.optimizer.betas=[0.9,0.999] training.learning_rate=0.001 training.weight_decay=0.0"},
		{name: "AdamW, whose decay is decoupled by name", text: `{"optimizer": {"type": "AdamW", "params": {"adam_w_mode": false}}, "zero_optimization": {}}`, format: foreign.DeepSpeed, want: "training.optimizer.name=adamw"},
		{name: "Muon's AdamW", text: `{"optimizer": {"type": "Muon", "params": {"betas": [0.8, 0.9], "eps": 1e-6}}, "zero_optimization": {}}`, format: foreign.DeepSpeed, want: "training.optimizer.name=muon training.betas=[0.8,0.9] training.eps=1.0e-06"},
		{name: "torch's SGD", text: `{"optimizer": {"type": "SGD", "params": {"momentum": 0.9, "nesterov": true}}, "zero_optimization": {}}`, format: foreign.DeepSpeed, want: "training.optimizer.name=sgd training.optimizer.momentum=0.9 training.optimizer.nesterov=true training.learning_rate=0.001 training.weight_decay=0.0"},
		{name: "Adagrad", text: `{"optimizer": {"type": "Adagrad", "params": {"lr": "auto"}}, "zero_optimization": {}}`, format: foreign.DeepSpeed, want: "training.optimizer.name=adagrad training.learning_rate=1.0e-05 training.weight_decay=0.0"},
		{name: "Adagrad's rate", text: `{"optimizer": {"type": "Adagrad"}, "zero_optimization": {}}`, format: foreign.DeepSpeed, want: "training.learning_rate=0.01"},
		{name: "Muon", text: `{"optimizer": {"type": "Muon", "params": {"momentum": 0.9, "ns_method": "gram"}}, "zero_optimization": {}}`, format: foreign.DeepSpeed, want: "training.optimizer.name=muon training.optimizer.momentum=0.9 training.learning_rate=0.02"},
		{name: "bf16 in float32", text: `{"bf16": {"enabled": true}, "communication_data_type": "fp32"}`, format: foreign.DeepSpeed, want: "precision.param_dtype=bfloat16 precision.reduce_dtype=float32"},
		{name: "fp16", text: `{"fp16": {"enabled": true}, "bf16": {"enabled": false}}`, format: foreign.DeepSpeed, want: "precision.param_dtype=float16 precision.reduce_dtype=float16 precision.buffer_dtype=float32 precision.loss_scaling.kind=deepspeed precision.loss_scaling.initial_scale_power=16 precision.loss_scaling.min_scale=0.0"},
		{name: "fp16 in detail", text: `{"fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 12, "loss_scale_window": 500, "hysteresis": 4, "consecutive_hysteresis": true, "min_loss_scale": 2}, "communication_data_type": "fp32"}`, format: foreign.DeepSpeed, want: "precision.param_dtype=float16 precision.reduce_dtype=float32 precision.loss_scaling.kind=deepspeed precision.loss_scaling.initial_scale_power=12 precision.loss_scaling.growth_interval=500 precision.loss_scaling.hysteresis=4 precision.loss_scaling.consecutive_hysteresis=true precision.loss_scaling.min_scale=2.0"},
		{name: "fp16 of one scale", text: `{"fp16": {"enabled": true, "loss_scale": 128, "hysteresis": 2}}`, format: foreign.DeepSpeed, want: "precision.loss_scaling.kind=static precision.loss_scaling.loss_scale=128.0"},
		{name: "no fp16", text: `{"fp16": {"enabled": false, "loss_scale": 128, "initial_scale_power": 3}, "zero_optimization": {}}`, format: foreign.DeepSpeed, want: "precision.param_dtype=float32 precision.loss_scaling.kind=auto precision.loss_scaling.loss_scale=0.0 precision.loss_scaling.initial_scale_power=16"},
		{name: "fp16 as arguments say", text: `{"fp16": {"enabled": "auto", "loss_scale": 128}}`, format: foreign.DeepSpeed, want: "precision.param_dtype=float32 precision.loss_scaling.kind=auto"},
		{name: "autocast", text: "training: {use_amp: true, model_name: m}\ndistributed: {backend: gloo}\n", format: foreign.DDP, want: "precision.param_dtype=float16 precision.reduce_dtype=float32 precision.loss_scaling.kind=torch"},
		{name: "fp16 of a Free Transformer", text: "model: {latent_dim: 8}\ntraining: {fp16: true}\n", format: foreign.FreeTransformer, want: "precision.param_dtype=float16 precision.loss_scaling.kind=torch"},
		{name: "fp16 of Accelerate", text: "distributed_type: MULTI_GPU\nmixed_precision: fp16\n", format: foreign.Accelerate, want: "precision.param_dtype=float16 precision.reduce_dtype=float32 precision.loss_scaling.kind=torch"},
		{name: "fp16 of Accelerate's FSDP", text: "distributed_type: FSDP\nmixed_precision: fp16\nfsdp_config: {}\n", format: foreign.Accelerate, want: "precision.param_dtype=float16 precision.reduce_dtype=float16 precision.buffer_dtype=float16 precision.loss_scaling.kind=torch"},
		{name: "fp16 of Accelerate's DeepSpeed", text: "distributed_type: DEEPSPEED\nmixed_precision: fp16\ndeepspeed_config: {zero_stage: 2}\n", format: foreign.Accelerate, want: "precision.param_dtype=float16 precision.reduce_dtype=float16 precision.loss_scaling.kind=deepspeed"},
		{name: "MiCS", text: `{"zero_optimization": {"stage": 3, "mics_shard_size": 4}}`, format: foreign.DeepSpeed, want: "parallel.strategy=hybrid_shard parallel.mesh.shard=4"},

		{name: "FSDP2", text: "distributed_type: FSDP\nfsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: false, fsdp_activation_checkpointing: true}\n", format: foreign.Accelerate, want: "parallel.strategy=full_shard parallel.reshard_after_forward=false activation_checkpointing.enabled=true"},
		{name: "FSDP2 by groups", text: "distributed_type: FSDP\nfsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: 4}\n", format: foreign.Accelerate, want: "parallel.strategy=full_shard parallel.reshard_after_forward=4"},
		{name: "FSDP2 as its first version", text: "distributed_type: FSDP\nfsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: HYBRID_SHARD}\n", format: foreign.Accelerate, want: "parallel.strategy=hybrid_shard parallel.reshard_after_forward=true"},
		{name: "gathers of stage 3", text: `{"zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 5e7, "zero_hpz_partition_size": 8}}`, format: foreign.DeepSpeed,
			want: "parallel.prefetch_units=1 parallel.reshard_after_forward=8"},
		{name: "nothing ahead", text: `{"zero_optimization": {"stage": 3, "prefetch_bucket_size": 0, "zero_hpz_partition_size": 1}}`, format: foreign.DeepSpeed,
			want: "parallel.prefetch_units=0 parallel.reshard_after_forward=true"},
		{name: "gathers of stage 3 at stage 2", text: `{"zero_optimization": {"stage": 2, "stage3_prefetch_bucket_size": 0, "stage3_max_reuse_distance": 1e9}}`, format: foreign.DeepSpeed,
			want: "parallel.strategy=shard_grad_op parallel.prefetch_units=1"},
		{name: "by number", text: "distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: 4}\n", format: foreign.Accelerate, want: "parallel.strategy=hybrid_shard"},
		{name: "a mesh", text: "distributed_type: FSDP\nparallelism_config: {parallelism_config_dp_replicate_size: 2, parallelism_config_dp_shard_size: 4, parallelism_config_tp_size: 1}\n", format: foreign.Accelerate, want: "parallel.strategy=hybrid_shard parallel.mesh.replicate=2 parallel.mesh.shard=4"},
		{name: "DeepSpeed of Accelerate", text: "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 1, gradient_clipping: 0.5, gradient_accumulation_steps: auto}\n", format: foreign.Accelerate, want: "parallel.strategy=zero_1 training.max_grad_norm=0.5 training.gradient_accumulation_steps=0"},
		{name: "off-loading", text: `{"zero_optimization": {"stage": 3, "sub_group_size": 1e8, "offload_optimizer": {"device": "nvme", "nvme_path": "/a", "buffer_count": 8, "pipeline_read": true, "pipeline_write": false, "ratio": 0.5, "pin_memory": true}, "offload_param": {"device": "nvme", "nvme_path": "/b", "max_in_cpu": 1e9, "buffer_size": 1e8}}}`,
			format: foreign.DeepSpeed, want: "offload.optimizer.device=nvme offload.optimizer.path=/a offload.optimizer.sub_group_size=100000000 offload.params.device=nvme offload.params.path=/b"},
		{name: "off-loading of Accelerate's DeepSpeed", text: "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 3, offload_optimizer_device: nvme, offload_optimizer_nvme_path: /a, offload_param_device: cpu}\n", format: foreign.Accelerate, want: "offload.optimizer.device=nvme offload.optimizer.path=/a offload.params.device=cpu"},
		{name: "off-loading of Accelerate's FSDP", text: "distributed_type: FSDP\nfsdp_config: {fsdp_offload_params: true}\n", format: foreign.Accelerate, want: "offload.optimizer.device=cpu offload.params.device=cpu"},
		{name: "off-loading, as it was called", text: `{"zero_optimization": {"stage": 2, "cpu_offload": true}}`, format: foreign.DeepSpeed, want: "offload.optimizer.device=cpu offload.params.device=none"},
		{name: "the mode of one process", text: "distributed_type: 'NO'\nnum_processes: 1\n", o: foreign.Options{Mode: "fsdp"}, format: foreign.Accelerate, want: "parallel.strategy=full_shard"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, err := foreign.Read("x.yaml", c.text, c.o)
			if err != nil {
				t.Fatal(err)
			}
			if file.Format != c.format {
				t.Errorf("it is read as %s, not %s", file.Format, c.format)
			}
			loaded, _ := conf.Load(train.Default(), file.Source) // without required keys
			for want := range strings.SplitSeq(c.want, " ") {
				path, value, _ := strings.Cut(want, "=")
				if got := strings.ReplaceAll(conf.Get(loaded.Value, path), " ", ""); got != value {
					t.Errorf("%s is %s, not %s", path, got, value)
				}
			}
		})
	}
}

// TestRanks checks the number of processes from Accelerate's file.
func TestRanks(t *testing.T) {
	const text = "distributed_type: MULTI_CPU\nnum_processes: 3\n"
	for _, c := range []struct {
		text string
		o    foreign.Options
		want int
	}{
		{text, foreign.Options{}, 3},
		{text, foreign.Options{Ranks: 2}, 0},
		{text + "num_machines: 2\n", foreign.Options{Launched: true, Ranks: 6}, 0},
		{text + "num_machines: 2\n", foreign.Options{PlanOnly: true}, 3},
		{text + "num_machines: 2\n", foreign.Options{PlanOnly: true, Ranks: 8}, 0},
	} {
		file, err := foreign.Read("x.yaml", c.text, c.o)
		if err != nil || file.Ranks != c.want {
			t.Errorf("%q with %+v: %v ranks, not %d; %v", c.text, c.o, file, c.want, err)
		}
	}
}

// TestNotes checks that an ignored or changed setting has one note with its line, and that other settings
// have none.
func TestNotes(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"the DDP trainer's", "training: {model_name: m}\ndistributed: {backend: nccl, static_graph: true, find_unused_parameters: false}\nlogging: {use_wandb: true}\n",
			"x.yaml:2:15: distributed.backend: nccl becomes parallel.backend auto: shared memory, or TCP between machines\n" +
				"x.yaml:3:11: logging.use_wandb: true becomes logging.wandb.mode offline: nothing is sent, wandb sync uploads wandb/ in the output directory"},
		{"DeepSpeed's monitors", `{"gradient_clipping": 1, "csv_monitor": {"enabled": true, "output_path": "x"}, "comms_logger": {"enabled": true, "verbose": true}, "comet": {"enabled": true}, "flops_profiler": {"enabled": true, "output_file": null}}`,
			"x.yaml:1:59: csv_monitor.output_path: x has no effect: CSV files go to csv/ in the output directory\n" +
				"x.yaml:1:114: comms_logger.verbose: true has no effect: a trace has each operation: trireme train --trace steps=A-B\n" +
				"x.yaml:1:132: comet: a group of keys has no effect: there is no Comet here; logging has tensorboard, wandb, mlflow, trackio and csv"},
		{"FSDP's in the trainer's file", "training: {model_name: m}\nfsdp: {forward_prefetch: false, use_orig_params: false, cpu_offload: false, min_num_params: 5}\n",
			"x.yaml:2:8: fsdp.forward_prefetch: false has no effect: the next unit is always prefetched\n" +
				"x.yaml:2:33: fsdp.use_orig_params: false has no effect: parameters always keep their names and shapes"},
		{"prefetching of FSDP", "training: {model_name: m}\nfsdp: {backward_prefetch: BACKWARD_PRE, limit_all_gathers: true, auto_wrap_policy: transformer_based, min_num_params: 100000000}\n", ""},
		{"other settings of FSDP", "training: {model_name: m}\nfsdp: {backward_prefetch: BACKWARD_POST, limit_all_gathers: false, auto_wrap_policy: size_based, min_num_params: 100000000}\n",
			"x.yaml:2:8: fsdp.backward_prefetch: BACKWARD_POST has no effect: the next unit is always prefetched\n" +
				"x.yaml:2:42: fsdp.limit_all_gathers: false has no effect: parallel.prefetch_units limits prefetched units\n" +
				"x.yaml:2:68: fsdp.auto_wrap_policy: size_based has no effect: each layer is a unit"},
		{"null prefetches nothing", "distributed_type: FSDP\nfsdp_config: {fsdp_backward_prefetch: null, fsdp_auto_wrap_policy: NO_WRAP, fsdp_min_num_params: 7}\n",
			"x.yaml:2:15: fsdp_config.fsdp_backward_prefetch: empty has no effect: the next unit is always prefetched"},
		{"stage 3's levers", `{"gradient_clipping": 1, "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": "auto", "model_persistence_threshold": 1e6, "stage3_max_live_parameters": 1e9, "max_reuse_distance": 2e9}}`,
			"x.yaml:1:106: zero_optimization.model_persistence_threshold: 1e6 has no effect: each unit is gathered as one flat parameter\n" +
				"x.yaml:1:142: zero_optimization.stage3_max_live_parameters: 1e9 has no effect: parallel.prefetch_units limits prefetched units\n" +
				"x.yaml:1:177: zero_optimization.max_reuse_distance: 2e9 has no effect: parallel.reshard_after_forward decides what is kept for backward"},
		{"a loss scale is obeyed", `{"gradient_clipping": 1, "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 12, "loss_scale_window": 500, "hysteresis": 2, "min_loss_scale": 1, "auto_cast": true}}`, ""},
		{"settings that always apply", `{"gradient_clipping": 1, "bf16": {"enabled": true, "check_grad_overflow": true}, "zero_optimization": {"stage": 3, "overlap_comm": true, "contiguous_gradients": true, "reduce_scatter": true, "compute_grad_norm": true, "reduce_bucket_size": "auto"}, "steps_per_print": "auto", "wall_clock_breakdown": false, "tensor_parallel": {"autotp_size": 1}, "compression_training": {"weight_quantization": {"shared_parameters": {"enabled": false}, "different_groups": {"a": {"params": {"start_bits": 8}}}}}}`, ""},
		{"and what it is not", `{"gradient_clipping": 1, "bf16": {"enabled": true, "check_grad_overflow": false}, "zero_optimization": {"stage": 3, "overlap_comm": false, "reduce_bucket_size": 5e8}, "compile": {"deepcompile": true}, "aio": {"block_size": 1048576}}`,
			"x.yaml:1:52: bf16.check_grad_overflow: false has no effect: a step with non-finite gradients is always skipped\n" +
				"x.yaml:1:117: zero_optimization.overlap_comm: false has no effect: communication always overlaps computation\n" +
				"x.yaml:1:140: zero_optimization.reduce_bucket_size: 5e8 has no effect: each unit has one gradient bucket\n" +
				"x.yaml:1:180: compile.deepcompile: true has no effect: nothing is compiled\n" +
				"x.yaml:1:202: aio: a group of keys has no effect: offloaded state uses direct I/O in blocks of sub-groups"},
		{"clipping that is not set", `{"bf16": {"enabled": true}}`, "x.yaml: gradient_clipping: (not set) means no clipping, as in DeepSpeed up to 0.19.2; since 0.19.3 the default is 1.0. Set it explicitly"},
		{"WarmupDecayLR has a rate of its own", `{"gradient_clipping": 1, "optimizer": {"type": "AdamW", "params": {"lr": 3e-5}}, "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 7, "total_num_steps": 70}}}`,
			"x.yaml:1:68: optimizer.params.lr: 3e-5 has no effect: the scheduler sets the rate, with warmup_max_lr 0.001"},
		{"a local state dict", "model: {latent_dim: 8}\ndistributed: {use_fsdp: true, fsdp_state_dict_type: local_state_dict}\n",
			"x.yaml:2:31: distributed.fsdp_state_dict_type: local_state_dict becomes checkpoint.state_dict_type sharded, which loads on any number of ranks"},
		{"the FSDP of another kind", "distributed_type: MULTI_GPU\nnum_processes: 2\nfsdp_config: {fsdp_activation_checkpointing: true}\n", "x.yaml:3:1: fsdp_config: a group of keys has no effect: distributed_type is MULTI_GPU"},
		{"torch.compile", "distributed_type: MULTI_CPU\ndynamo_config: {dynamo_backend: INDUCTOR, dynamo_mode: default}\n", "x.yaml:2:17: dynamo_config.dynamo_backend: INDUCTOR has no effect: nothing is compiled"},
		{"torch.compile as it was written", "distributed_type: MULTI_CPU\ndynamo_backend: 'NO'\n", ""},
		{"types that do not hold", "model: {latent_dim: 8}\ntraining: {bf16: true}\ndistributed: {use_fsdp: true, fsdp_mixed_precision: false, fsdp_param_dtype: float16}\n", "x.yaml:3:60: distributed.fsdp_param_dtype: float16 has no effect: fsdp_mixed_precision is false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, err := foreign.Read("x.yaml", c.text, foreign.Options{})
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if c.want != "" {
				want = "ignored or changed settings in x.yaml:\n  " + strings.ReplaceAll(c.want, "\n", "\n  ") + "\n"
			}
			if d := cmp.Diff(want, file.Warning()); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestCompare checks that other sources cannot contradict the file's training arguments.
func TestCompare(t *testing.T) {
	const text = `{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": "auto", "gradient_clipping": "auto", "optimizer": {"type": "AdamW", "params": {"lr": 3e-5, "eps": "auto"}}}`
	file, err := foreign.Read("x.yaml", text, foreign.Options{})
	if err != nil {
		t.Fatal(err)
	}
	check := func(sets ...string) error {
		sources := []conf.Source{file.Source, conf.Set("--set", "data.path=d")}
		for _, s := range sets {
			sources = append(sources, conf.Set("--set", s))
		}
		loaded, err := conf.Load(train.Default(), sources...)
		if err != nil {
			t.Fatal(err)
		}
		return file.Compare(loaded.Value, loaded.Origins)
	}
	if err := check("training.eps=1e-6", "training.learning_rate=0.00003", "training.gradient_accumulation_steps=2"); err != nil {
		t.Error(err)
	}
	err = check("training.learning_rate=1e-4", "training.micro_batch_size=2")
	for _, want := range []string{
		"x.yaml:1:2: train_micro_batch_size_per_gpu is 4 in this file, but --set training.micro_batch_size=2 sets training.micro_batch_size to 2",
		"optimizer.params.lr is 3.0e-05 in this file, but --set training.learning_rate=1e-4 sets training.learning_rate to 0.0001",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nis without %s", err, want)
		}
	}
}
