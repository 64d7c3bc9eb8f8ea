package cli

// recipeJob is a training job that runs without further files.
type recipeJob struct {
	Name    string `json:"name"`
	About   string `json:"about"`
	Needs   string `json:"needs"` // requirements besides this program
	Command string `json:"command"`
}

// Requirements of jobs.
const (
	goNeeded    = "a Go installation (its standard library is the data)"
	cloneNeeded = "a clone of the repository; run it in the root"
)

const (
	withShakespeare = ` --set data.path=examples/data/shakespeare/train.txt --set data.eval_path=examples/data/shakespeare/validation.txt`
	freeData        = withShakespeare + ` --set data.tokenizer=examples/llama-fsdp/model --set training.warmup_steps=50 --set training.max_steps=400`
)

// recipeJobs are the built-in recipe and the examples, with the commands of examples/README.md.
var recipeJobs = []recipeJob{
	{"go-source", "a small Llama on the source of Go's standard library, two processes, full_shard", goNeeded, "trireme train"},
	{"shakespeare-char", "a character-level GPT-2 on Shakespeare", cloneNeeded,
		"trireme train --config examples/shakespeare-char/run.yaml --nproc 2 --output_dir out/shakespeare"},
	{"bert-sentiment", "a BERT sentiment classifier, from a DDP trainer's configuration", cloneNeeded,
		"trireme train --mode ddp --config examples/bert-sentiment/ddp_config.yaml --model examples/bert-sentiment/model" +
			" --output_dir out/bert --nproc 2 --set model.random_weights=true --set data.path=examples/data/sentiment.jsonl" +
			" --set data.eval_fraction=0.1 --set training.gradient_accumulation_steps=1 --set training.learning_rate=1e-3" +
			" --set training.num_train_epochs=4"},
	{"llama-fsdp", "a Llama in bfloat16 with activation checkpointing, from an FSDP trainer's configuration", cloneNeeded,
		"trireme train --mode fsdp --config examples/llama-fsdp/fsdp_config.yaml --model examples/llama-fsdp/model" +
			" --output_dir out/llama --nproc 2 --set model.random_weights=true" + withShakespeare +
			" --set data.packing=true --set training.gradient_accumulation_steps=1 --set training.learning_rate=3e-3"},
	{"qwen2-sft", "supervised fine-tuning of a Qwen2 on conversations, from an Accelerate configuration", cloneNeeded,
		"trireme train --config examples/qwen2-sft/accelerate.yaml --model examples/qwen2-sft/model --output_dir out/qwen2" +
			" --set model.random_weights=true --set data.path=examples/data/instruct.jsonl --set data.sequence_length=512" +
			" --set data.truncate=true --set training.micro_batch_size=4 --set training.learning_rate=3e-3 --set training.num_train_epochs=10"},
	{"free-transformer", "a Free Transformer, from its trainer's configuration", cloneNeeded,
		"trireme train --config examples/free-transformer/free_transformer.yaml --output_dir out/free --nproc 2" + freeData},
	{"scaling", "a GPT-2 on 1 and 2 ranks: efficiency and what limits it", cloneNeeded,
		"trireme bench scaling --config examples/scaling/run.yaml --worlds 1,2 --strategies ddp,fsdp --param_dtypes float32,bfloat16 --output_dir out/scaling"},
	{"latent-bits", "an experiment on the Free Transformer's latent bits, with the Go library", cloneNeeded, "go run ./examples/latent-bits"},
}
