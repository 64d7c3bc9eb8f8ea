package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sound is a valid configuration.
const sound = `model:
  config: config.json
data:
  path: text.txt
  format: text
  tokenizer: tok
  sequence_length: 16
  packing: true
  cache_dir: cache
training:
  micro_batch_size: 1
  gradient_accumulation_steps: 2
  max_steps: 4
  learning_rate: 3.0e-4
  lr_scheduler: cosine
  warmup_steps: 1
  weight_decay: 0.1
  betas: [0.9, 0.95]
  max_grad_norm: 1.0
  seed: 42
parallel:
  strategy: full_shard
  mesh:
    replicate: 1
    shard: 1
precision:
  param_dtype: float32
checkpoint:
  save_every_n_steps: 2
  keep_last_n: 3
logging:
  log_every_n_steps: 1
  tensorboard: false
output_dir: out
`

// mutations are errors in it: the text, its replacement, and the key or value that the message suggests,
// or "".
var mutations = []struct{ from, to, meant string }{
	// Misspelled keys.
	{"learning_rate:", "learning_rat:", `"learning_rate"`}, {"learning_rate:", "learningRate:", `"learning_rate"`}, {"learning_rate:", "learning-rate:", `"learning_rate"`},
	{"learning_rate:", "LEARNING_RATE:", `"learning_rate"`}, {"max_steps:", "max_step:", `"max_steps"`}, {"max_steps:", "maxsteps:", `"max_steps"`},
	{"micro_batch_size:", "micro_batchsize:", `"micro_batch_size"`}, {"micro_batch_size:", "mirco_batch_size:", `"micro_batch_size"`},
	{"gradient_accumulation_steps:", "gradient_acumulation_steps:", `"gradient_accumulation_steps"`}, {"warmup_steps:", "warm_up_steps:", `"warmup_steps"`},
	{"weight_decay:", "weight_deacy:", `"weight_decay"`}, {"max_grad_norm:", "max_gradnorm:", `"max_grad_norm"`}, {"betas:", "beta:", `"betas"`}, {"seed:", "sede:", `"seed"`},
	{"sequence_length:", "sequence_lenght:", `"sequence_length"`}, {"tokenizer:", "tokenizzer:", `"tokenizer"`}, {"packing:", "paking:", `"packing"`},
	{"strategy:", "stratgy:", `"strategy"`}, {"replicate:", "replicates:", `"replicate"`}, {"param_dtype:", "param_type:", `"param_dtype"`},
	{"save_every_n_steps:", "save_every_steps:", `"save_every_n_steps"`}, {"keep_last_n:", "keep_last:", `keep_last_n"`}, {"output_dir:", "outputdir:", `"output_dir"`},
	{"training:", "trainning:", `"training"`}, {"parallel:", "paralel:", `"parallel"`}, {"checkpoint:", "chekpoint:", `"checkpoint"`}, {"model:", "modle:", `"model"`},
	// Keys in the wrong group.
	{"output_dir: out", "max_steps: 4", `"training.max_steps"`}, {"output_dir: out", "learning_rate: 1e-3", `"training.learning_rate"`},
	{"  seed: 42", "  sequence_length: 16", `"data.sequence_length"`}, {"  tensorboard: false", "  keep_last_n: 2", `"checkpoint.keep_last_n"`},
	{"  packing: true", "  weight_decay: 0.1", `"training.weight_decay"`}, {"  keep_last_n: 3", "  tensorboard: true", `"logging.tensorboard"`},
	{"  strategy: full_shard", "  param_dtype: float32", `"precision.param_dtype"`}, {"output_dir: out", "learning_rat: 1e-3", `"training.learning_rate"`},
	{"output_dir: out", "strategy: fsdp", `"parallel.strategy"`}, {"  mesh:\n    replicate: 1\n    shard: 1", "  shard: 1", `"parallel.mesh.shard"`},
	// Names in other programs.
	{"micro_batch_size:", "per_device_train_batch_size:", `"micro_batch_size"`}, {"micro_batch_size:", "per_device_batch_size:", `"micro_batch_size"`},
	{"micro_batch_size:", "batch_size:", `micro_batch_size"`}, {"learning_rate:", "lr:", `learning_rate"`}, {"max_steps:", "num_epochs:", `num_train_epochs"`},
	{"max_grad_norm:", "gradient_clipping:", `max_grad_norm"`}, {"max_grad_norm:", "grad_clip:", `max_grad_norm"`}, {"sequence_length:", "block_size:", `sequence_length"`},
	{"sequence_length:", "max_length:", `sequence_length"`}, {"sequence_length:", "max_seq_length:", `sequence_length"`}, {"sequence_length:", "cutoff_len:", `sequence_length"`},
	{"sequence_length:", "sequence_len:", `sequence_length"`}, {"training:", "train:", `"training"`}, {"data:", "dataset:", `"data"`}, {"output_dir: out", "optimizer: {type: adamw}", `learning_rate`},
	{"max_steps:", "max_iters:", `max_steps"`}, {"max_steps:", "maxIters:", `max_steps"`}, {"warmup_steps:", "warmup_iters:", `warmup_steps"`}, {"warmup_steps:", "num_warmup_steps:", `warmup_steps"`},
	{"lr_scheduler:", "lr_scheduler_type:", `lr_scheduler"`}, {"betas: [0.9, 0.95]", "adam_beta1: 0.9", `betas"`}, {"weight_decay:", "wd:", `weight_decay"`},
	{"save_every_n_steps:", "save_steps:", `save_every_n_steps"`}, {"keep_last_n:", "save_total_limit:", `keep_last_n"`}, {"log_every_n_steps:", "logging_steps:", `log_every_n_steps"`},
	{"output_dir:", "out_dir:", `"output_dir"`}, {"  config: config.json", "  model_name_or_path: DIR", `"path"`}, {"  config: config.json", "  base_model: DIR", `"path"`},
	{"path: text.txt", "train_file: text.txt", `path"`}, {"packing:", "sample_packing:", `packing"`}, {"output_dir: out", "bf16: true", `"precision.param_dtype"`},
	{"output_dir: out", "gradient_checkpointing: true", `"activation_checkpointing.enabled"`}, {"output_dir: out", "lora_r: 8", "LoRA"}, {"output_dir: out", "wandb_project: x", `"logging.wandb.project"`},
	{"  seed: 42", "  eval_steps: 3", `eval_every_n_steps"`}, {"output_dir: out", "resume_from_checkpoint: x", `"resume"`}, {"output_dir: out", "report_to: tensorboard", `"logging.tensorboard"`},
	{"output_dir: out", "fp16: true", `"precision.param_dtype"`}, {"output_dir: out", "num_gpus: 2", "--nproc"}, {"output_dir: out", "per_device_eval_batch_size: 2", `"training.micro_batch_size"`},
	// Misspelled values.
	{"cosine", "cosin", `"cosine"`}, {"cosine", "Cosine", `"cosine"`}, {"cosine", "liner", `"linear"`}, {"cosine", "WarmupDecay", `"WarmupDecayLR"`}, {"full_shard", "fullshard", `"full_shard"`},
	{"full_shard", "fspd", `"fsdp"`}, {"full_shard", "zero2_", `"zero_2"`}, {"float32", "bfloat_16", `"bfloat16"`}, {"float32", "flaot16", `"float16"`}, {"format: text", "format: jsnol", `"jsonl"`},
	{"format: text", "format: shargpt", `"sharegpt"`}, {"text.txt", "text.tx", "text.txt"}, {"config.json", "confg.json", "config.json"}, {"tokenizer: tok", "tokenizer: tock", "tok"},
	{"packing: true", "packing: yess", "true or false"}, {"packing: true", "train_on: answer", `"answers"`},
	// Wrong types.
	{"max_steps: 4", "max_steps: four", "training.max_steps"}, {"max_steps: 4", "max_steps: 4.5", "training.max_steps"}, {"max_steps: 4", "max_steps: [4]", "training.max_steps"},
	{"max_steps: 4", "max_steps: {a: 4}", "training.max_steps"}, {"3.0e-4", "3.0e-4x", "training.learning_rate"}, {"3.0e-4", "", "training.learning_rate"},
	{"[0.9, 0.95]", "0.9", "training.betas"}, {"[0.9, 0.95]", "[0.9]", "training.betas"}, {"[0.9, 0.95]", "[a, b]", "training.betas"}, {"tensorboard: false", "tensorboard: 0", "logging.tensorboard"},
	{"model:\n  config: config.json", "model: config.json", "model"}, {"    replicate: 1\n    shard: 1", "    - 1", "parallel.mesh"},
	// Out of range, and in conflict.
	{"micro_batch_size: 1", "micro_batch_size: 0", "micro_batch_size"}, {"micro_batch_size: 1", "micro_batch_size: -4", "micro_batch_size"}, {"3.0e-4", "-1", "learning_rate"}, {"3.0e-4", ".nan", "learning_rate"},
	{"[0.9, 0.95]", "[1.5, 0.9]", "betas"}, {"weight_decay: 0.1", "weight_decay: -0.1", "weight_decay"}, {"keep_last_n: 3", "keep_last_n: -1", "keep_last_n"}, {"log_every_n_steps: 1", "log_every_n_steps: 0", "log_every_n_steps"},
	{"sequence_length: 16", "sequence_length: 100000", "sequence"}, {"sequence_length: 16", "sequence_length: -1", "sequence_length"}, {"shard: 1", "shard: 2", "--nproc 2"}, {"  seed: 42", "  global_batch_size: 3", "global_batch_size"},
	{"  seed: 42", "  warmup_ratio: 0.5", "warmup_ratio"}, {"  config: config.json", "  config: config.json\n  path: DIR", "config"}, {"  seed: 42", "  eval_every_n_steps: 2\n  eval_every_n_epochs: 1", "eval_every_n_epochs"},
	{"config: config.json", "config: .", "config.json"}, {"strategy: full_shard", "backend: nccl", "shm"}, {"output_dir: out", "device: {name: gpu}", "cpu, cuda"}, {"3.0e-4", "20", "learning_rate"},
	{"warmup_steps: 1", "warmup_steps: 100", "warmup_steps"}, {"  seed: 42", "  seed: 1\n  seed: 2", `"seed"`},
	// Structure.
	{"training:\n", "training\n", "training"}, {"  max_steps: 4", "\tmax_steps: 4", "tab"}, {"  max_steps: 4", "  max_steps 4", "max_steps"}, {"  max_steps: 4", "     max_steps: 4", "indented"},
	{"[0.9, 0.95]", "[0.9, 0.95", "not closed"}, {"model:", "- model:", ""}, {sound, "", "is empty"}, {sound, "# only a comment\n", "is empty"}, {sound, "[training]\nmax_steps = 4\n", "TOML"},
	{sound, `{"per_device_train_batch_size": 1, "learning_rate": 3e-4, "num_train_epochs": 1, "output_dir": "out"}`, `"training.micro_batch_size"`},
	{sound, `{"perDeviceTrainBatchSize": 1, "maxSteps": 4}`, `"training.max_steps"`},
}

// TestMutations checks that each error is refused or noted before anything is written, with the right
// suggestion.
func TestMutations(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"text.txt": strings.Repeat("the quick brown fox jumps over the lazy dog.\n", 8),
		"config.json": `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "vocab_size": 264, "hidden_size": 24,
 "intermediate_size": 52, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1, "rms_norm_eps": 1e-5,
 "rope_theta": 10000, "max_position_embeddings": 32, "tie_word_embeddings": true, "initializer_range": 0.02}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, stderr := command("tokenize", "--train", "--vocab_size", "264", "--output", "tok", "text.txt"); code != 0 {
		t.Fatal(stderr)
	}
	t.Setenv("HF_HOME", filepath.Join(t.TempDir(), "hf"))
	t.Setenv("HF_HUB_OFFLINE", "1")
	// run returns the exit code and the message of a dry run: its error, or its notes.
	run := func(text string) (int, string) {
		if err := os.WriteFile("run.yaml", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := command("train", "--dry_run", "--config", "run.yaml")
		for line := range strings.Lines(stdout) {
			if strings.HasPrefix(line, "note: ") {
				stderr += line
			}
		}
		return code, stderr
	}
	code, plain := run(sound)
	if code != 0 {
		t.Fatalf("the sound configuration ends with %d:\n%s", code, plain)
	}
	refused, noted, known, named := 0, 0, 0, 0
	for _, m := range mutations {
		text := strings.Replace(sound, m.from, m.to, 1)
		if text == sound {
			t.Errorf("%q is not in the configuration", m.from)
			continue
		}
		code, stderr := run(text)
		switch {
		case code == CodeUsage:
			refused++
		case code == CodeDone && stderr != plain && stderr != "":
			noted++
		default:
			t.Errorf("%q for %q ends with %d, and no word:\n%s", m.to, m.from, code, stderr)
		}
		if m.meant == "" {
			continue
		}
		known++
		if strings.Contains(stderr, m.meant) {
			named++
		} else {
			t.Logf("%q for %q does not name %s:\n%s", m.to, m.from, m.meant, stderr)
		}
	}
	t.Logf("%d mutations: %d refused, %d noted; of %d that have one, %d (%.1f%%) name the key or value that was meant",
		len(mutations), refused, noted, known, named, 100*float64(named)/float64(known))
	if len(mutations) < 100 || 100*named < 95*known {
		t.Error("fewer than 100 mutations, or fewer than 95% of them with what was meant")
	}
	if _, err := os.Stat("out"); err == nil {
		t.Error("a dry run has written something")
	}
}

// TestStrangers checks that for a file of an unsupported program each key leads to a key or to the reason
// why there is none.
func TestStrangers(t *testing.T) {
	files, err := filepath.Glob("testdata/strangers/*")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	named := 0
	for _, file := range files {
		code, _, stderr := command("train", "--config", file)
		if code != CodeUsage {
			t.Errorf("%s: code %d", file, code)
		}
		for line := range strings.Lines(stderr) {
			switch {
			case strings.Contains(line, "keys there"), strings.Contains(line, "Transformer's file"):
				t.Error(line)
			case strings.Contains(line, "unknown key"):
				named++
			}
		}
	}
	if named < 80 {
		t.Errorf("only %d keys were named", named)
	}
}
