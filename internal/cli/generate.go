package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"trireme/data"
	"trireme/device"
	"trireme/generate"
	"trireme/internal/objectstore"
	"trireme/tokenizer"
	"trireme/train"
)

type generateFlags struct {
	model, tokenizer string
	source           *modelSource // resolved from model
	prompt           string
	options          generate.Options
	chat             bool
	device           device.Config
	dtype            train.WeightType
	json             bool
}

func newGenerate() *cobra.Command {
	f := &generateFlags{device: device.DefaultConfig(), dtype: train.Float32}
	c := &cobra.Command{
		Use:   "generate",
		Short: "continue a text with a model",
		Long: `Continue --prompt, or the text on standard input without its final newline, and print the new tokens
as they are generated, without the prompt. The same seed and prompt give the same text. Generation ends at the tokenizer's
end-of-text token, at those of generation_config.json, or after --max_new_tokens. A text longer than
the model's context continues from its second half.

--dtype bfloat16 keeps weights, activations and the cache of keys and values in bfloat16, half the
memory. --dtype int8 keeps the weights of linear layers and the head in 8 bits, with a scale for every 64, and the
rest in bfloat16. --cache chooses the type of keys and values alone: int8 has a scale per token and head. The type
of the files does not matter.

For a run's directory the model is its final_model, or else its newest checkpoint. A checkpoint's
configuration names the model and the tokenizer.`,
		Example: `  trireme generate --model out/final_model --prompt "func (s *"
  trireme generate --model runs/go-source-1 --prompt "func (s *"
  trireme generate --model DIR --chat --prompt "What is a mutex?"
  trireme generate --model DIR --temperature 0 --json < prompt.txt`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	p := c.Flags()
	p.StringVar(&f.model, "model", "", "model: a Hugging Face `DIR` (config.json, weights, tokenizer), a name on the hub, a run's directory, or a checkpoint")
	p.StringVar(&f.tokenizer, "tokenizer", "", "tokenizer: a `DIR` or a name on the hub (default: the model's)")
	p.StringVar(&f.prompt, "prompt", "", "`TEXT` to continue")
	p.IntVar(&f.options.MaxNewTokens, "max_new_tokens", 128, "maximum number of new tokens")
	p.Float64Var(&f.options.Temperature, "temperature", 0.7, "sampling temperature; 0: greedy")
	p.IntVar(&f.options.TopK, "top_k", 40, "sample from the k most likely tokens; 0: all")
	p.Float64Var(&f.options.TopP, "top_p", 1, "sample from the most likely tokens with this total probability; 1: all")
	p.Uint64Var(&f.options.Seed, "seed", 0, "seed of sampling")
	p.BoolVar(&f.chat, "chat", false, "format the prompt as a user message with the chat template of the run or the tokenizer")
	p.StringVar((*string)(&f.device.Name), "device", string(f.device.Name), "device: "+strings.Join(f.device.Name.Choices(), ", "))
	p.StringVar(&f.device.Plugin, "plugin", "", "`FILE` of the device's PJRT plug-in (default for cuda and tpu: where pip installs it)")
	p.StringVar((*string)(&f.dtype), "dtype", string(f.dtype), "type of weights: "+strings.Join(f.dtype.Choices(), ", ")+"; int8 needs --device cpu")
	p.StringVar((*string)(&f.options.Cache), "cache", "", "type of cached keys and values: "+strings.Join(f.options.Cache.Choices(), ", ")+"; int8 needs --device cpu (default: that of activations)")
	p.IntVar(&f.device.Threads, "threads", 0, "threads; 0: all processors")
	p.BoolVar(&f.json, "json", false, "print one JSON object at the end")
	return c
}

func (f *generateFlags) run(c *cobra.Command) error {
	if f.model == "" {
		return usage("--model is missing", c.CommandPath()+" --model DIR --prompt TEXT")
	}
	if err := f.options.Validate(); err != nil {
		return &Exit{CodeUsage, err}
	}
	if f.options.TopP == 0 { // ambiguous: all tokens here, greedy in other programs
		return usage("top_p is 0: it must be above 0", c.CommandPath()+" --temperature 0 (greedy), or --top_p 1 (all tokens)")
	}
	if err := oneOf("device", string(f.device.Name), f.device.Name.Choices()...); err != nil {
		return err
	}
	if err := oneOf("dtype", string(f.dtype), f.dtype.Choices()...); err != nil {
		return err
	}
	if f.dtype == train.Int8 && f.device.Name != device.CPU {
		return usage(fmt.Sprintf("--dtype int8 needs --device cpu, not %s", f.device.Name), "--dtype bfloat16")
	}
	if f.options.Cache == generate.Int8 && f.device.Name != device.CPU {
		return usage(fmt.Sprintf("--cache int8 needs --device cpu, not %s", f.device.Name), "--cache bfloat16")
	}
	if f.device.Name == device.XLA && f.device.Plugin == "" {
		return usage("--device xla needs the file of a plug-in", "--plugin FILE.so")
	}
	if err := f.device.Validate(); err != nil {
		return &Exit{CodeUsage, err}
	}
	text, err := f.text(c)
	if err != nil {
		return err
	}
	if err := f.locate(c.Context(), c.ErrOrStderr()); err != nil {
		return err
	}
	tok, err := f.openTokenizer()
	if err != nil {
		return err
	}
	prompt := tok.Encode(text, tokenizer.Options{AddSpecialTokens: true})
	if f.chat {
		template, err := f.source.chatTemplate()
		if err != nil {
			return err
		}
		if template == "" && tok.ChatTemplate() == "" {
			return usage("--chat needs a chat template, but the tokenizer has none", "the run's directory as --model, if it trained with data.chat_template, or no --chat")
		}
		message, err := data.Config{ChatTemplate: template}.ChatPrompt(tok, text)
		if err != nil {
			return &Exit{CodeUsage, err}
		}
		prompt = tok.Encode(message, tokenizer.Options{})
	}
	if err := tok.Err(); err != nil {
		return &Exit{CodeUsage, err}
	}
	if len(prompt) == 0 {
		return usage("the prompt is empty", c.CommandPath()+` --prompt "Once upon a time"`)
	}
	m, err := f.source.load(c.Context(), f.device, f.dtype)
	if err != nil {
		return err
	}
	r, err := f.generate(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), m, tok, prompt)
	if closed := m.Close(); err == nil {
		err = closed
	}
	if err != nil || !f.json {
		return err
	}
	r.Prompt, r.DType = text, string(f.dtype)
	return writeJSON(c.OutOrStdout(), r)
}

func (f *generateFlags) locate(ctx context.Context, stderr io.Writer) error {
	l := &locator{stderr: stderr}
	if !objectstore.IsURL(f.model) { // findModel finds out whether that is a checkpoint
		m, err := l.model(ctx, "", f.model, true)
		if err != nil {
			return err
		}
		if m != nil {
			f.model = m.Dir
		}
	}
	t, err := l.tokenizer(ctx, "", f.tokenizer)
	if t != nil {
		f.tokenizer = t.Dir
	}
	if err != nil {
		return err
	}
	if f.source, err = findModel(f.model, stderr); err != nil {
		return err
	}
	return f.source.resolveNames(ctx, l, f.tokenizer)
}

func (f *generateFlags) text(c *cobra.Command) (string, error) {
	if c.Flags().Changed("prompt") {
		return f.prompt, nil
	}
	in := c.InOrStdin()
	if file, ok := in.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return "", usage("no prompt: standard input is a terminal", c.CommandPath()+` --prompt "Once upon a time"`)
	}
	b, err := io.ReadAll(in)
	if err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}

func (f *generateFlags) openTokenizer() (*tokenizer.Tokenizer, error) {
	dir := f.tokenizer
	if dir == "" {
		dir = f.source.tokenizer()
	}
	if dir == "" {
		return nil, usage(f.model+" has no tokenizer in its configuration", "--tokenizer DIR")
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	return tok, nil
}

type generateReport struct {
	Schema          string  `json:"schema"`
	Prompt          string  `json:"prompt"`
	Text            string  `json:"text"` // generated
	Tokens          []int32 `json:"tokens"`
	PromptTokens    int     `json:"prompt_tokens"`
	NewTokens       int     `json:"new_tokens"`
	DType           string  `json:"dtype"`       // of weights
	CacheDType      string  `json:"cache_dtype"` // of keys and values
	CacheBytes      int64   `json:"cache_bytes"` // full
	Ended           bool    `json:"ended"`       // by the end-of-text token
	Seconds         float64 `json:"seconds"`
	TokensPerSecond float64 `json:"tokens_per_second"`
}

// generate generates text, and writes it to out without --json.
func (f *generateFlags) generate(ctx context.Context, out, stderr io.Writer, m *train.LoadedModel, tok *tokenizer.Tokenizer, prompt []int32) (*generateReport, error) {
	info := m.Model.Info()
	if tok.VocabSize() > info.Vocab {
		return nil, usage(fmt.Sprintf("the tokenizer has %d tokens, but the model's vocabulary only %d", tok.VocabSize(), info.Vocab), "--tokenizer DIR with the model's tokenizer")
	}
	if n := len(prompt) - info.MaxPositions; n > 0 {
		fmt.Fprintf(stderr, "the prompt has %d tokens, the model %d positions: dropping the first %d tokens\n", len(prompt), info.MaxPositions, n)
		prompt = prompt[n:]
	}
	o := f.options
	o.DType = m.DType
	if eos := tok.EOS(); eos >= 0 {
		o.Stop = []int32{eos}
	}
	ends, err := generate.EndTokens(f.source.files())
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	o.Stop = append(o.Stop, ends...)
	r := &generateReport{
		Schema: "trireme.generate/1", PromptTokens: len(prompt), Tokens: []int32{}, CacheDType: string(o.Cache.Or(o.DType)),
		CacheBytes: generate.CacheBytes(info, o.Cache.Of(o.DType), min(info.MaxPositions, len(prompt)+o.MaxNewTokens)),
	}
	text := tok.DecodeStream(false)
	for _, id := range prompt {
		text.Next(id) // decides the space before the first word
	}
	began := time.Now()
	for id, err := range generate.Tokens(ctx, m.Backend, m.Model, prompt, info.MaxPositions, o) {
		if errors.Is(err, generate.ErrNotCausal) {
			return nil, &Exit{CodeUsage, err}
		}
		if err != nil {
			return nil, err
		}
		r.Tokens = append(r.Tokens, id)
		piece := text.Next(id)
		r.Text += piece
		if f.json {
			continue
		}
		if _, err := io.WriteString(out, piece); err != nil {
			return nil, fmt.Errorf("standard output: %w", err)
		}
	}
	rest := text.Close()
	r.Text += rest
	if !f.json {
		if _, err := io.WriteString(out, rest+"\n"); err != nil {
			return nil, fmt.Errorf("standard output: %w", err)
		}
	}
	r.NewTokens = len(r.Tokens)
	r.Ended = r.NewTokens < o.MaxNewTokens
	r.Seconds = time.Since(began).Seconds()
	r.TokensPerSecond = float64(r.NewTokens) / r.Seconds
	return r, nil
}
