package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// comparison is an argument of the command.
type comparison struct {
	name  string
	run   func(*harness, context.Context) error
	torch bool // needs PyTorch
}

var comparisons = []comparison{
	{"step", (*harness).step, true},
	{"gemm", (*harness).gemm, true},
	{"collectives", (*harness).collectives, true},
	{"ranks", (*harness).ranks, true},
	{"mpi", (*harness).mpi, false},
	{"tokenize", (*harness).tokenize, false},
	{"checkpoint", (*harness).checkpoint, true},
	{"generate", (*harness).generate, true},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run runs the command line args: tables to out, progress and the flags' help to progress.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	var r *results
	if o.from != "" {
		if r, err = load(o.from); err != nil {
			return err
		}
		r.print(out)
	} else if r, err = o.measure(ctx, out, progress); err != nil {
		return err
	}
	if o.svg == "" {
		return nil
	}
	drawing, err := r.draw()
	if err != nil {
		return err
	}
	return os.WriteFile(o.svg, drawing, 0o644)
}

// options are the command line.
type options struct {
	args                        []string // as given
	trireme, python             string   // programs; "": build trireme, install PyTorch
	pairs, steps, mib           int
	configs, threads            []string // configs may be empty: those of each comparison
	dtypes, peers, instructions []string
	matmul                      []string // ways to multiply float32 matrices
	transports                  []string // of collectives and ranks
	texts, tokenizers           []string // of tokenize; may be empty
	weights                     []string // types of generate
	cache, model                string   // of generate; may be empty
	json, svg, from             string   // files
	what                        []comparison
}

// parse returns the options of args, whose flags may also follow comparisons. Its error is one line.
func parse(args []string, help io.Writer) (options, error) {
	o := options{args: args}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&o.trireme, "trireme", "", "trireme `FILE`; empty: built from this module")
	f.StringVar(&o.python, "python", "", "Python `FILE` that imports torch, for tokenize tokenizers, for generate also transformers and cyllama; empty: PyTorch "+torchVersion+", tokenizers "+huggingFace.version+", cyllama "+llamaCpp.version+" are installed in the user's cache directory on first use")
	f.IntVar(&o.pairs, "pairs", 5, "pairs of runs, ours and theirs in turn")
	f.IntVar(&o.steps, "steps", 5, "measured steps of each training run")
	f.IntVar(&o.mib, "mib", 1024, "MiB of the checkpoint and of the model of checkpoint: a multiple of 8")
	f.StringVar(&o.model, "model", "", "model `DIR` of generate; empty: random weights in the shape of Qwen2-0.5B, written to the user's cache directory on first use (4.5 GB with files for llama.cpp)")
	f.StringVar(&o.cache, "cache", "", "type of trireme's keys and values in generate: float32, bfloat16, int8; empty: that of activations")
	f.StringVar(&o.json, "json", "", "write results to `FILE`")
	f.StringVar(&o.svg, "svg", "", "draw tokens per second of step to `FILE`")
	f.StringVar(&o.from, "from", "", "print and draw results of `FILE`, written with -json, instead of measuring")
	lists := []struct {
		to          *[]string
		name, usage string
		def         string
		choices     []string
	}{
		{&o.configs, "configs", "models (default A,B,C for step, B,C for ranks)", "", []string{"A", "B", "C"}},
		{&o.threads, "threads", "threads of step and generate", "1,2", nil},
		{&o.dtypes, "dtypes", "types of step, gemm and ranks", "float32", []string{"float32", "bfloat16"}},
		{&o.peers, "peer", "PyTorch modes of step and ranks", "compiled", []string{"eager", "compiled"}},
		{&o.instructions, "instructions", "instruction sets of both programs", "auto", []string{"auto", "avx512", "avx2"}},
		{&o.matmul, "float32_matmul", "products of float32 matrices in trireme, of step, gemm and ranks", "auto", []string{"auto", "highest", "bfloat16x6", "high"}},
		{&o.transports, "transports", "transports of collectives and ranks", "shm,tcp", []string{"shm", "tcp"}},
		{&o.weights, "weights", "types of weights of generate", "float32,bfloat16,int8", []string{"float32", "bfloat16", "int8"}},
		{&o.texts, "texts", "files, directories or globs of tokenize, a corpus each (default the source of Go, and English of the repository and of Go)", "", nil},
		{&o.tokenizers, "tokenizers", "tokenizers of tokenize (default trained on the texts)", "", nil},
	}
	texts := make([]string, len(lists))
	for i, l := range lists {
		usage := "comma-separated " + l.usage
		if l.choices != nil {
			usage += ": " + strings.Join(l.choices, ", ")
		}
		f.StringVar(&texts[i], l.name, l.def, usage)
	}
	for rest := args; ; {
		if err := f.Parse(rest); errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(help, "usage: go run ./bench [flags] %s\n", strings.Join(names(), " "))
			f.SetOutput(help)
			f.PrintDefaults()
			return o, err
		} else if err != nil {
			return o, fmt.Errorf("%w. try: -help", err)
		}
		if f.NArg() == 0 {
			break
		}
		i := slices.Index(names(), f.Arg(0))
		if i < 0 {
			return o, fmt.Errorf("%q is not one of %s", f.Arg(0), strings.Join(names(), ", "))
		}
		o.what, rest = append(o.what, comparisons[i]), f.Args()[1:]
	}
	for i, l := range lists {
		if texts[i] == "" {
			if l.def != "" {
				return o, fmt.Errorf("-%s is empty. try: -%s %s", l.name, l.name, l.def)
			}
			continue
		}
		*l.to = strings.Split(texts[i], ",")
		for _, v := range *l.to {
			if l.choices != nil && !slices.Contains(l.choices, v) {
				return o, fmt.Errorf("-%s has %q, which is not one of %s", l.name, v, strings.Join(l.choices, ", "))
			}
		}
	}
	return o, o.check()
}

func names() (out []string) {
	for _, c := range comparisons {
		out = append(out, c.name)
	}
	return out
}

func (o options) check() error {
	for _, t := range o.threads {
		if n, err := strconv.Atoi(t); err != nil || n < 1 {
			return fmt.Errorf("-threads has %q: it must be a number from 1", t)
		}
	}
	switch {
	case o.pairs < 1:
		return fmt.Errorf("-pairs is %d: it must be at least 1", o.pairs)
	case o.steps < 1:
		return fmt.Errorf("-steps is %d: it must be at least 1", o.steps)
	case o.mib < ddMiB || o.mib%ddMiB != 0:
		return fmt.Errorf("-mib is %d: it must be a multiple of %d", o.mib, ddMiB)
	case o.from != "" && (len(o.what) > 0 || o.json != ""):
		return errors.New("-from measures nothing. try: -from FILE -svg OUT, without -json and comparisons")
	case o.from == "" && len(o.what) == 0:
		return fmt.Errorf("no comparison given. try: go run ./bench step, or one of %s", strings.Join(names(), ", "))
	case o.from == "" && o.svg != "" && !slices.ContainsFunc(o.what, func(c comparison) bool { return c.name == "step" }):
		return errors.New("-svg draws training steps. try: -svg FILE step")
	}
	return nil
}
