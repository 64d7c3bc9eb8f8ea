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
	"trireme/tokenizer"
	"trireme/train"
)

// generateFlags is the command line of generate.
type generateFlags struct {
	model, tokenizer string
	source           *modelSource // what model is
	prompt           string
	options          generate.Options
	chat             bool
	threads          int
	json             bool
}

func newGenerate() *cobra.Command {
	f := &generateFlags{}
	c := &cobra.Command{
		Use:   "generate",
		Short: "continue a text with a model",
		Long: `Continues --prompt, or the text on standard input without its last line end, and prints
tokens as they are generated. The same seed and prompt give the same text. Generation ends at
the tokenizer's end-of-text token or those of generation_config.json, or after
--max_new_tokens. A text that outgrows the model's positions continues from its newer half.

With a run's directory the model is its final_model, or else its newest checkpoint; a checkpoint's
own configuration says what the model and the tokenizer are.`,
		Example: `  trireme generate --model out/final_model --prompt "func (s *"
  trireme generate --model runs/go-source-1 --prompt "func (s *"
  trireme generate --model DIR --chat --prompt "What is a mutex?"
  trireme generate --model DIR --temperature 0 --json < prompt.txt`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	p := c.Flags()
	p.StringVar(&f.model, "model", "", "Hugging Face `DIR` (config.json, weights, and a tokenizer), its name on the hub, a run's directory, or a checkpoint")
	p.StringVar(&f.tokenizer, "tokenizer", "", "tokenizer's `DIR` or name on the hub (default: the model's)")
	p.StringVar(&f.prompt, "prompt", "", "`TEXT` to continue")
	p.IntVar(&f.options.MaxNewTokens, "max_new_tokens", 128, "maximum number of new tokens")
	p.Float64Var(&f.options.Temperature, "temperature", 0.7, "sampling temperature; 0 always takes the likeliest token")
	p.IntVar(&f.options.TopK, "top_k", 40, "sample from the k likeliest tokens; 0 is all")
	p.Float64Var(&f.options.TopP, "top_p", 1, "sample from the likeliest tokens that together reach this probability; 1 is all")
	p.Uint64Var(&f.options.Seed, "seed", 0, "seed of sampling")
	p.BoolVar(&f.chat, "chat", false, "the prompt is a user's message: it is put into the tokenizer's chat template")
	p.IntVar(&f.threads, "threads", 0, "threads; 0 is all processors")
	p.BoolVar(&f.json, "json", false, "print one JSON object at the end, and nothing before")
	return c
}

func (f *generateFlags) run(c *cobra.Command) error {
	if f.model == "" {
		return usage("--model is missing: which model is to be used", c.CommandPath()+" --model DIR --prompt TEXT")
	}
	if err := f.options.Validate(); err != nil {
		return &Exit{CodeUsage, err}
	}
	if f.options.TopP == 0 { // which would be all; elsewhere it is the likeliest
		return usage("top_p is 0: it must be above 0", c.CommandPath()+" --temperature 0, to take the likeliest; --top_p 1 for all")
	}
	d := device.DefaultConfig()
	d.Threads = f.threads
	if err := d.Validate(); err != nil {
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
		if tok.ChatTemplate() == "" {
			return usage("--chat needs a chat template, and the tokenizer has none", c.CommandPath()+" without --chat")
		}
		message, err := data.Config{}.ChatPrompt(tok, text)
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
	m, err := f.source.load(c.Context(), d)
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
	r.Prompt = text
	return writeJSON(c.OutOrStdout(), r)
}

// locate puts directories in the place of names on the hub.
func (f *generateFlags) locate(ctx context.Context, stderr io.Writer) error {
	l := &locator{stderr: stderr}
	m, err := l.model(ctx, "", f.model, true)
	if err != nil {
		return err
	}
	if m != nil {
		f.model = m.Dir
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

// text is what is to be continued.
func (f *generateFlags) text(c *cobra.Command) (string, error) {
	if c.Flags().Changed("prompt") {
		return f.prompt, nil
	}
	in := c.InOrStdin()
	if file, ok := in.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return "", usage("there is no prompt, and standard input is a terminal", c.CommandPath()+` --prompt "Once upon a time"`)
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
		return nil, usage(f.model+": its configuration names no tokenizer", "--tokenizer DIR")
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	return tok, nil
}

// generateReport is --json's object.
type generateReport struct {
	Schema          string  `json:"schema"`
	Prompt          string  `json:"prompt"`
	Text            string  `json:"text"` // what was added
	Tokens          []int32 `json:"tokens"`
	PromptTokens    int     `json:"prompt_tokens"`
	NewTokens       int     `json:"new_tokens"`
	Ended           bool    `json:"ended"` // by the end-of-text token
	Seconds         float64 `json:"seconds"`
	TokensPerSecond float64 `json:"tokens_per_second"`
}

// generate writes to out what the model adds, unless a report is to come.
func (f *generateFlags) generate(ctx context.Context, out, stderr io.Writer, m *train.LoadedModel, tok *tokenizer.Tokenizer, prompt []int32) (*generateReport, error) {
	info := m.Model.Info()
	if tok.VocabSize() > info.Vocab {
		return nil, usage(fmt.Sprintf("the tokenizer has %d tokens, the model's vocabulary %d: they do not belong together", tok.VocabSize(), info.Vocab), "--tokenizer DIR of the model's own")
	}
	if n := len(prompt) - info.MaxPositions; n > 0 {
		fmt.Fprintf(stderr, "the prompt has %d tokens, the model %d positions: the first %d are left out\n", len(prompt), info.MaxPositions, n)
		prompt = prompt[n:]
	}
	o := f.options
	if eos := tok.EOS(); eos >= 0 {
		o.Stop = []int32{eos}
	}
	ends, err := generate.EndTokens(f.source.files())
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	o.Stop = append(o.Stop, ends...)
	r := &generateReport{Schema: "trireme.generate/1", PromptTokens: len(prompt), Tokens: []int32{}}
	text := tok.DecodeStream(false)
	for _, id := range prompt {
		text.Next(id) // the space before a first word depends on what came before
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
