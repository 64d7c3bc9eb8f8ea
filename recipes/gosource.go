package recipes

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"trireme/data"
	"trireme/device"
	"trireme/fault"
	"trireme/generate"
	"trireme/model"
	"trireme/tokenizer"
	"trireme/train"
)

// Recipe is a job that needs no files.
type Recipe struct {
	Name    string // in messages, instead of a file's
	RunName string // default name of its runs
	YAML    string // the configuration
	Model   string // config.json
	Nproc   int

	Tokenizer string // directory, made by Prepare

	prompts []string
	noCache error // why Tokenizer has no directory
}

// ModelName is model.config of a recipe's configuration.
const ModelName = "built-in"

const vocabulary = 2048

const goModel = `{
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "vocab_size": 2048, "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4,
  "num_attention_heads": 8, "num_key_value_heads": 4, "rms_norm_eps": 1e-5, "rope_theta": 10000,
  "max_position_embeddings": 256, "tie_word_embeddings": true, "initializer_range": 0.02
}`

// goConfig trains for less than two minutes on two cores of a slow server: 600 steps of 1,024 tokens.
const goConfig = `
model: {config: built-in}
data: {format: go_source, tokenizer: %q, eval_fraction: 0.005, sequence_length: 128, packing: true, shuffle: true}
training: {micro_batch_size: 4, gradient_accumulation_steps: 1, max_steps: 600, learning_rate: 2.0e-3,
           lr_scheduler: cosine, warmup_steps: 30, weight_decay: 0.1, max_grad_norm: 1.0, seed: 42}
parallel: {strategy: full_shard}
checkpoint: {save_every_n_steps: 200, keep_last_n: 2}
`

// GoSource trains a small Llama on the source of Go's standard library, which every machine with Go has,
// on two ranks. It trains the tokenizer first and caches it.
func GoSource() *Recipe {
	r := &Recipe{Name: "the built-in recipe", RunName: "go-source", Model: goModel, Nproc: 2, prompts: []string{"func (s *", "// Read"}}
	cache, err := os.UserCacheDir()
	r.noCache = err
	r.Tokenizer = filepath.Join(cache, "trireme", fmt.Sprintf("go-source-bpe-%d", vocabulary))
	r.YAML = fmt.Sprintf(goConfig, r.Tokenizer)
	return r
}

// Prepare trains the tokenizer unless it is cached.
func (r *Recipe) Prepare(ctx context.Context, log io.Writer) error {
	if r.noCache != nil {
		return &train.InputError{Err: fault.Try(fmt.Errorf("%s caches its tokenizer in the user's cache directory: %w", r.Name, r.noCache), "HOME=DIR trireme train")}
	}
	if _, err := os.Stat(filepath.Join(r.Tokenizer, "tokenizer.json")); err == nil {
		return nil
	}
	began := time.Now()
	fmt.Fprintf(log, "training a tokenizer of %d tokens on Go's standard library\n", vocabulary)
	c := data.DefaultConfig()
	c.Format = data.FormatGoSource
	tok, err := data.TrainTokenizer(ctx, c, vocabulary)
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "trained in %.1f s, saved in %s\n", time.Since(began).Seconds(), r.Tokenizer)
	return tok.Save(r.Tokenizer)
}

// Sample generates text with the finished model, in this process.
func (r *Recipe) Sample(ctx context.Context, w io.Writer, families model.Registry, dir string) error {
	tok, err := tokenizer.Load(r.Tokenizer)
	if err != nil {
		return err
	}
	m, err := train.LoadModel(families, dir, device.DefaultConfig(), train.Float32)
	if err != nil {
		return err
	}
	defer m.Close()
	for i, p := range r.prompts {
		fmt.Fprintf(w, "\n--- sample after %q\n%s", p, p)
		o := generate.Options{MaxNewTokens: 96, Temperature: 0.7, TopK: 40, Seed: uint64(i), Stop: []int32{tok.EOS()}}
		prompt, text := tok.Encode(p, tokenizer.Options{}), tok.DecodeStream(false)
		for _, id := range prompt {
			text.Next(id)
		}
		for id, err := range generate.Tokens(ctx, m.Backend, m.Model, prompt, m.Model.Info().MaxPositions, o) {
			if err != nil {
				return err
			}
			fmt.Fprint(w, text.Next(id))
		}
		fmt.Fprintln(w, text.Close())
	}
	fmt.Fprintln(w, "---")
	return nil
}
