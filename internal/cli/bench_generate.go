package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"trireme/device"
	"trireme/internal/bench"
	"trireme/train"
)

type benchGenerateFlags struct {
	model   string
	options bench.GenerateOptions
	device  device.Config
	json    bool
}

type benchGenerateReport struct {
	Schema  string `json:"schema"`
	Kernels string `json:"kernels"`
	bench.GenerateReport
}

func newBenchGenerate() *cobra.Command {
	f := &benchGenerateFlags{device: device.DefaultConfig(), options: bench.GenerateOptions{Weights: train.Float32}}
	c := &cobra.Command{
		Use:   "generate",
		Short: "measure generation of one sequence on cpu",
		Long: `Generate tokens after a prompt of arbitrary ones, greedily, and print the prompt's tokens per second up to the first
new token, those of the median new token after it, and the peak of resident memory. A token reads all weights of matrices once:
a plain read of the same number of bytes by the same threads follows, and its share of the token's time is
printed. --model needs no tokenizer.`,
		Example: "  trireme bench generate --model DIR --dtype bfloat16 --threads 1 --json",
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	p, o := c.Flags(), &f.options
	p.StringVar(&f.model, "model", "", "model: a Hugging Face `DIR` (config.json, weights), a name on the hub, a run's directory, or a checkpoint")
	p.StringVar((*string)(&o.Weights), "dtype", string(o.Weights), "type of weights: "+strings.Join(o.Weights.Choices(), ", "))
	p.StringVar((*string)(&o.Cache), "cache", "", "type of cached keys and values: "+strings.Join(o.Cache.Choices(), ", ")+" (default: that of activations)")
	p.IntVar(&o.Prompt, "prompt_tokens", 512, "tokens of the prompt")
	p.IntVar(&o.New, "new_tokens", 64, "new tokens")
	p.IntVar(&o.Threads, "threads", 1, "threads")
	addInstructions(p, &f.device.Instructions)
	p.BoolVar(&f.json, "json", false, "print one JSON object")
	return c
}

func (f *benchGenerateFlags) run(c *cobra.Command) error {
	o := &f.options
	if f.model == "" {
		return usage("--model is missing", c.CommandPath()+" --model DIR")
	}
	if err := oneOf("dtype", string(o.Weights), o.Weights.Choices()...); err != nil {
		return err
	}
	if o.Cache != "" {
		if err := oneOf("cache", string(o.Cache), o.Cache.Choices()...); err != nil {
			return err
		}
	}
	for _, n := range []struct {
		flag       string
		value, min int
	}{{"prompt_tokens", o.Prompt, 1}, {"new_tokens", o.New, 2}, {"threads", o.Threads, 1}} {
		if n.value < n.min {
			return usage(fmt.Sprintf("--%s is %d: it must be at least %d", n.flag, n.value, n.min), "")
		}
	}
	if err := useInstructions(f.device.Instructions); err != nil {
		return err
	}
	f.device.Threads = o.Threads
	r, err := f.measure(c.Context(), c.ErrOrStderr())
	if err != nil {
		return err
	}
	if f.json {
		return writeJSON(c.OutOrStdout(), r)
	}
	return r.print(c.OutOrStdout())
}

func (f *benchGenerateFlags) measure(ctx context.Context, stderr io.Writer) (_ *benchGenerateReport, err error) {
	g := generateFlags{model: f.model}
	if err := g.locate(ctx, stderr); err != nil {
		return nil, err
	}
	m, err := g.source.load(ctx, f.device, f.options.Weights)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if info, o := m.Model.Info(), f.options; o.Prompt+o.New > info.MaxPositions {
		return nil, usage(fmt.Sprintf("--prompt_tokens %d and --new_tokens %d are more than the model's %d positions", o.Prompt, o.New, info.MaxPositions), "--prompt_tokens with fewer")
	}
	r, err := bench.Generate(ctx, m, f.options)
	return &benchGenerateReport{"trireme.bench.generate/1", readVersion().Kernels, r}, err
}

func (r *benchGenerateReport) print(out io.Writer) error {
	_, err := fmt.Fprintf(out, `weights in %s, keys and values in %s, %s, %s kernels
prompt        %d tokens, %.1f tokens/s
tokens/s      %.2f, %.1f ms a token (median of %d)
weights       %.1f MB a token; a plain read at %.1f GB/s is %.1f%% of its time
resident      %d MiB peak
`, r.DType, r.CacheDType, number(int64(r.Threads), "thread"), r.Kernels, r.PromptTokens, r.PromptTokensPerS,
		r.TokensPerS, r.TokenMS, r.NewTokens-1, float64(r.TokenBytes)/1e6, r.ReadGBPerS, 100*r.ReadShare, r.RSSMiB)
	return err
}
