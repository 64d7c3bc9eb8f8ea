package foreign_test

import (
	"strings"
	"testing"

	"trireme/internal/conf"
	"trireme/internal/foreign"
	"trireme/train"
)

// TestUnavailable checks that an unsupported feature is an error with its line if enabled, and ignored if
// disabled.
func TestUnavailable(t *testing.T) {
	for _, c := range []struct{ on, off, want string }{
		{`"tensor_parallel": {"autotp_size": 2}`, `"tensor_parallel": {"autotp_size": 1, "preset_model": "llama"}`, "tensor_parallel.autotp_size is 2: tensor parallelism is not supported. try: 1,"},
		{`"tensor_parallel": {"tp": {"tp_size": 4}}`, `"tensor_parallel": {"autotp_size": 0, "tp": {"tp_size": 1}}`, "tensor_parallel.tp.tp_size is 4"},
		{`"pipeline": {"stages": 2}`, `"pipeline": {"stages": "auto", "partition": "best"}`, "pipeline.stages is 2: pipeline parallelism is not supported"},
		{`"sequence_parallel_size": 2`, `"sequence_parallel_size": 1`, `sequence_parallel_size is "2": sequence parallelism is not supported`},
		{`"expert_parallel": {"enabled": true, "autoep_size": 2}`, `"expert_parallel": {"enabled": false}`, "expert_parallel: expert parallelism is not supported"},
		{`"compression_training": {"weight_quantization": {"shared_parameters": {"enabled": true}, "different_groups": {}}}`,
			`"compression_training": {"weight_quantization": {"shared_parameters": {"enabled": false}, "different_groups": {}}, "layer_reduction": {"enabled": false, "keep_number_layer": 5}}`, "compression_training: compression"},
		{`"compression_training": {"layer_reduction": {"enabled": true}}`, `"compression_training": {}`, "compression_training: compression"},
		{`"sparse_attention": {"mode": "fixed", "block": 16}`, `"sparse_attention": null`, "sparse_attention: sparse attention"},
		{`"quantize_training": {"enabled": true}`, `"quantize_training": {"enabled": false}`, "quantize_training: quantized training"},
		{`"weight_quantization": {"quantized_initialization": {"num_bits": 8}}`, `"weight_quantization": null`, "weight_quantization: quantized weights"},
		{`"eigenvalue": {"enabled": true}`, `"eigenvalue": {"enabled": false, "verbose": true}`, "eigenvalue: quantized training is not supported"},
		{`"elasticity": {"enabled": true}`, `"elasticity": {"enabled": false}`, "elasticity: elastic training"},
		{`"progressive_layer_drop": {"enabled": true, "theta": 0.5}`, `"progressive_layer_drop": {"enabled": false}`, "progressive_layer_drop: progressive layer drop"},
		{`"curriculum_learning": {"enabled": true}`, `"curriculum_learning": {"enabled": false}`, "curriculum_learning: curriculum learning"},
		{`"data_efficiency": {"enabled": true, "data_routing": {"enabled": true}}`, `"data_efficiency": {"enabled": false, "data_routing": {"enabled": true}}`, "data_efficiency: curriculum data sampling"},
		{`"amp": {"enabled": true, "opt_level": "O1"}`, `"amp": {"enabled": false}`, `amp: Apex mixed precision is not supported. try: "fp16"`},
		{`"torch_autocast": {"enabled": true, "dtype": "bfloat16"}`, `"torch_autocast": {"enabled": false}`, "torch_autocast: autocast"},
		{`"zero_optimization": {"zenflow": {"topk_ratio": 0.1}}`, `"zero_optimization": {"zenflow": null}`, "zero_optimization.zenflow: ZenFlow"},
		{`"zero_optimization": {"zeropp_loco_param": {"err_beta": 0.8}}`, `"zero_optimization": {"zeropp_loco_param": null}`, "zeropp_loco_param: quantized communication"},
		{`"gradient_allreduce_op": "sum"`, `"gradient_allreduce_op": "mean"`, "gradient_allreduce_op is \"sum\": the loss is the mean over all ranks. try: mean"},
		{`"managed_gradient_accumulation": false`, `"managed_gradient_accumulation": true`, "managed_gradient_accumulation is \"false\""},
		{`"bf16": {"enabled": true, "bf16_optimizer_states": true}, "optimizer": {"type": "Lion"}`, `"bf16": {"enabled": true, "bf16_optimizer_states": true}, "optimizer": {"type": "AdamW"}`, "bf16.bf16_optimizer_states is true: the state of lion is float32. try: false, or AdamW"},
		{`"bfloat16": {"enabled": true, "bf16_master_weights_and_grads": true}`, `"bfloat16": {"enabled": true}`, "bfloat16.bf16_master_weights_and_grads"},
		{`"bf16": {"enabled": true}, "data_types": {"param_dtype": "fp16"}`, `"bf16": {"enabled": true}, "data_types": {"param_dtype": "bf16", "grad_accum_dtype": "fp32"}`, "data_types.param_dtype is fp16, but fp16 and bf16 set bfloat16"},
		{`"optimizer": {"type": "OneBitLamb", "params": {"lr": 1e-3, "max_coeff": 10}}`, `"optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "adam_w_mode": false, "weight_decay": 0.1}}`, "optimizer.type: OneBitLamb is not supported; AdamW, Adam,"},
		{`"optimizer": {"type": "Muon", "params": {"lr": 1e-3, "adam_lr": 1e-4}}`, `"optimizer": {"type": "Adam", "params": {"bias_correction": true, "amsgrad": false}}`, "optimizer.params.adam_lr is 1e-4: Muon and its AdamW share one learning rate, lr"},
		{`"optimizer": {"type": "Adagrad", "params": {"betas": [0.9, 0.99]}}`, `"optimizer": {"type": "Adam", "params": {"max_grad_norm": 0}}`, "optimizer.params.betas is not a parameter of Adagrad, which has lr_decay, initial_accumulator_value, eps. try: remove the key"},
		{`"optimizer": {"type": "AdamW", "params": {"max_grad_norm": 1.0}}`, `"optimizer": {"type": "AdamW"}`, "optimizer.params.max_grad_norm is \"1.0\": use gradient_clipping"},
		{`"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 1e-5, "cycle_max_lr": 1e-3}}`, `"scheduler": {"type": "WarmupCosineLR"}`,
			`scheduler.type: OneCycle is not supported. try: "WarmupCosineLR", or leave scheduler out and training.lr_scheduler=cosine_with_restarts`},
		{`"scheduler": {"type": "WarmupLR", "params": {"cos_min_ratio": 0.1}}`, `"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 5}}`, "scheduler.params.cos_min_ratio is a parameter of WarmupCosineLR"},
	} {
		name, _, _ := strings.Cut(c.want, " ")
		t.Run(name, func(t *testing.T) {
			_, err := foreign.Read("x.yaml", `{"gradient_clipping": 1, `+c.on+"}", foreign.Options{})
			switch {
			case err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "try: "):
				t.Errorf("%s: %v\nis without %s", c.on, err, c.want)
			case !strings.HasPrefix(err.Error(), "x.yaml:1:") || strings.Contains(err.Error(), "\n"):
				t.Errorf("%s: %v\nis not one line with its position", c.on, err)
			}
			file, err := foreign.Read("x.yaml", `{"gradient_clipping": 1, `+c.off+"}", foreign.Options{})
			if err != nil {
				t.Fatalf("%s: %v", c.off, err)
			}
			if w := file.Warning(); w != "" {
				t.Errorf("%s: %s", c.off, w)
			}
		})
	}
}

// TestTrainer: --mode without a file.
func TestTrainer(t *testing.T) {
	for mode, want := range map[string]string{
		"ddp":       "model.path=bert-base-uncased data.path=stanfordnlp/imdb training.micro_batch_size=16 training.gradient_accumulation_steps=4 training.num_train_epochs=3.0 training.learning_rate=2.0e-05 parallel.strategy=no_shard precision.param_dtype=float16 checkpoint.save_every_n_epochs=1.0",
		"fsdp":      "model.path=meta-llama/Llama-2-7b-hf data.split=\"train[:1000]\" training.micro_batch_size=2 training.gradient_accumulation_steps=8 training.learning_rate=1.0e-05 parallel.strategy=full_shard precision.param_dtype=bfloat16 precision.reduce_dtype=float32",
		"deepspeed": "model.path=meta-llama/Llama-2-7b-hf training.gradient_accumulation_steps=16 training.betas=[0.9,_0.95] training.max_grad_norm=1.0 parallel.strategy=full_shard precision.param_dtype=bfloat16 training.lr_scheduler=WarmupDecayLR training.load_best_model_at_end=true training.eval_every_n_steps=500 checkpoint.save_every_n_steps=500 offload.optimizer.device=cpu export.dtype=compute",
	} {
		file := foreign.Trainer(mode, foreign.Options{Mode: mode})
		loaded, err := conf.Load(train.Default(), file.Source)
		if err != nil {
			t.Fatal(err)
		}
		for want := range strings.SplitSeq(want, " ") {
			path, value, _ := strings.Cut(want, "=")
			if got := conf.Get(loaded.Value, path); got != strings.ReplaceAll(value, "_", " ") && got != value {
				t.Errorf("--mode %s: %s is %s, not %s", mode, path, got, value)
			}
			if at := loaded.Origins[path]; at != "--mode "+mode+" (its trainer's default)" {
				t.Errorf("--mode %s: %s is of %s", mode, path, at)
			}
		}
		if err := file.Compare(loaded.Value, loaded.Origins); err != nil || len(file.Fixed) != 0 {
			t.Errorf("--mode %s settles something: %v", mode, err)
		}
	}
}

// TestComments checks that Hjson's comments are skipped and positions stay.
func TestComments(t *testing.T) {
	const text = "// a file\n{ // rows\n  \"train_batch_size\": 8, /* of a\n step */ \"gradient_clipping\": 1.0, # clips\n  \"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"//a/*b\\\"//\"}} // é\n}\n"
	file, err := foreign.Read("x.json", strings.TrimPrefix(text, "// a file\n"), foreign.Options{})
	if err != nil {
		t.Fatal(err)
	}
	loaded, _ := conf.Load(train.Default(), file.Source)
	if p := loaded.Value.Offload.Optimizer.Path; p != `//a/*b"//` {
		t.Errorf("the path is %s", p)
	}
	if at := loaded.Origins["training.max_grad_norm"]; at != "x.json:3:10" {
		t.Errorf("clipping is of %s", at)
	}
}
