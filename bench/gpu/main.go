// Command gpu measures and checks trireme on an accelerator, beside PyTorch and JAX on the same card, and
// writes a JSON file. It needs no Go and no network on that machine; see bench/README.md.
//
//	CGO_ENABLED=0 go build -o trireme ./cmd/trireme
//	CGO_ENABLED=0 go build -o bench-gpu ./bench/gpu
//	go test -c -o train.test ./train
//	go test -c -o device.test ./device
//	./bench-gpu -out gpu.json
//
// It runs in the root of the repository. Nothing else should run on the machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"trireme/internal/bench"
)

// harness has the flags. Its directories and programs are absolute paths or names in PATH.
type harness struct {
	device, plugin          string
	out                     string
	trireme, python, golden string
	conformance             string
	pairs                   int
	peakTFLOPS              float64
	small                   bool
	budget                  time.Duration
	only, configs           []string
	caches                  string // directory of compiled programs that is kept; "" for none

	cache  string // directory of a part for compiled programs, empty when it starts, without -caches
	report report
}

// part is a part of a run. share is the fraction of the remaining budget that it may use.
type part struct {
	name  string
	share float64
	run   func(h *harness, ctx context.Context) error
}

// parts are the parts of a run in order.
var parts = []part{
	{"environment", 0.1, (*harness).environment},
	{"golden", 0.3, (*harness).reference},
	{"conformance", 0.2, (*harness).conform},
	{"curve", 0.2, (*harness).curve},
	{"speed", 1, (*harness).speed},
}

func main() {
	h := &harness{}
	flag.StringVar(&h.device, "device", "cuda", "device of trireme: cuda, xla or tpu")
	flag.StringVar(&h.plugin, "plugin", "", "PJRT plug-in `FILE`; empty: where pip installs it")
	flag.StringVar(&h.out, "out", "gpu.json", "report `FILE`, written after each child process")
	flag.StringVar(&h.trireme, "trireme", "./trireme", "the program")
	flag.StringVar(&h.python, "python", "python3", "a Python that imports torch and jax")
	flag.StringVar(&h.golden, "golden", "./train.test", "test program of package train")
	flag.StringVar(&h.conformance, "conformance", "./device.test", "test program of package device")
	flag.IntVar(&h.pairs, "pairs", 3, "rounds of trireme, PyTorch and JAX on each configuration")
	flag.Float64Var(&h.peakTFLOPS, "peak_tflops", 0, "peak of the card in bfloat16, for mfu; 0: by its name")
	flag.BoolVar(&h.small, "small", false, "config A and few steps, to try this program without a card; the peers run on the processor")
	flag.DurationVar(&h.budget, "budget", 9*time.Minute+30*time.Second, "time for everything")
	only := flag.String("only", "", "parts to run, of environment,golden,conformance,curve,speed; empty: all")
	configs := flag.String("configs", "gpt2-1k,llama-1b,llama-1b-4k", "configurations of speed")
	flag.StringVar(&h.caches, "caches", "", "`DIR` for compiled programs, which later runs use; empty: they compile anew")
	flag.Parse()
	h.configs = strings.Split(*configs, ",")
	if *only != "" {
		h.only = strings.Split(*only, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := h.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-gpu:", err)
		os.Exit(1)
	}
}

// run runs the parts. A failed part does not end the run; its error is in the report.
func (h *harness) run(ctx context.Context) error {
	if err := h.resolve(); err != nil {
		return err
	}
	caches := h.caches
	if caches == "" {
		var err error
		if caches, err = os.MkdirTemp("", "bench-gpu-"); err != nil {
			return err
		}
		defer os.RemoveAll(caches)
	}
	began := time.Now()
	ends := began.Add(h.budget)
	h.report = report{Schema: "trireme.bench.gpu/1", Began: began.UTC().Format(time.RFC3339), Device: h.device, Small: h.small}
	failed := 0
	for _, p := range parts {
		if len(h.only) > 0 && !slices.Contains(h.only, p.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s\n", p.name)
		h.cache = filepath.Join(caches, p.name)
		if err := h.linkPlugins(); err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, time.Duration(p.share*float64(time.Until(ends))))
		if err := p.run(h, limited); err != nil {
			failed++
			fmt.Fprintf(os.Stderr, "%s: %v\n", p.name, err)
		}
		cancel()
		h.report.Seconds = time.Since(began).Seconds()
		if err := h.write(); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return errors.New("interrupted")
	}
	if failed > 0 {
		return fmt.Errorf("%d parts failed; %s has their errors", failed, h.out)
	}
	return nil
}

// linkPlugins makes the plug-ins of the user's cache directory visible in h.cache, which replaces it.
func (h *harness) linkPlugins() error {
	user, err := os.UserCacheDir()
	if err != nil {
		return nil // trireme looks in none either
	}
	dir := filepath.Join(h.cache, "trireme")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.Symlink(filepath.Join(user, "trireme", "plugins"), filepath.Join(dir, "plugins")); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// resolve checks the flags and makes paths absolute, since children run in other directories.
func (h *harness) resolve() error {
	for _, name := range h.only {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("-only: %q is not one of environment, golden, conformance, curve, speed", name)
		}
	}
	for _, name := range h.configs {
		if _, ok := bench.StepConfigs[name]; !ok {
			return fmt.Errorf("-configs: %q is not one of %s", name, strings.Join(bench.StepNames(), ", "))
		}
	}
	if h.pairs < 1 {
		return fmt.Errorf("-pairs is %d: it must be at least 1", h.pairs)
	}
	for _, path := range []*string{&h.plugin, &h.out, &h.trireme, &h.python, &h.golden, &h.conformance, &h.caches} {
		if *path == "" || path == &h.python && !strings.Contains(*path, "/") {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = abs
	}
	return nil
}
