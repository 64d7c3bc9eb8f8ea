package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"trireme/internal/flock"
	"trireme/nn"
)

// Tokens of generate.
const (
	promptTokens = 512
	newTokens    = 64
)

// generateMetrics are the figures of a generation.
var generateMetrics = []string{"prompt_tokens_per_s", "tokens_per_s", "rss_mib"}

// qwenConfig has the shape of Qwen2-0.5B.
const qwenConfig = `{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864,
	"num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "max_position_embeddings": 32768, "rope_theta": 1000000.0,
	"rms_norm_eps": 1e-6, "hidden_act": "silu", "initializer_range": 0.02, "tie_word_embeddings": true, "use_sliding_window": false, "torch_dtype": "bfloat16"}
`

// ggufTypes are those of files that llama.cpp reads, by the type of weights.
var ggufTypes = map[string]string{"float32": "float32", "bfloat16": "bfloat16", "int8": "q8_0"}

// generate compares generation of one sequence with transformers and with llama.cpp, each on the same weights.
func (h *harness) generate(ctx context.Context) error {
	llama, err := newPeer(ctx, llamaCpp, h.python, h.dir, h.progress)
	if err != nil {
		return err
	}
	v, err := decode(command(ctx, llama.python, filepath.Join(llama.dir, llama.program), "version"), llama.python)
	if err != nil {
		return fmt.Errorf("%w. try: -python FILE that imports cyllama, or no -python to install it", err)
	}
	dir, files, err := h.generateModel(ctx)
	if err != nil {
		return err
	}
	lengths := []string{"--prompt_tokens", strconv.Itoa(promptTokens), "--new_tokens", strconv.Itoa(newTokens)}
	theirs := func(dtype, threads string) measurement {
		return h.peer.run("auto", h.kernels("auto"), append([]string{"generate", "--model", dir, "--dtype", dtype, "--threads", threads}, lengths...)...)
	}
	if err := h.generation(ctx, "transformers", dir, []string{"float32", "bfloat16"}, lengths, theirs); err != nil {
		return err
	}
	theirs = func(dtype, threads string) measurement {
		args := append([]string{filepath.Join(llama.dir, llama.program), "generate", "--model", files[dtype], "--threads", threads}, lengths...)
		return func(ctx context.Context) (object, error) {
			return decode(command(ctx, llama.python, args...), "llama.cpp generate")
		}
	}
	return h.generation(ctx, fmt.Sprint("llama.cpp of cyllama ", v["cyllama"]), dir, []string{"float32", "bfloat16", "int8"}, lengths, theirs)
}

// generation adds the table of a peer, which has weights of some types.
func (h *harness) generation(ctx context.Context, name, dir string, dtypes, lengths []string, theirs func(dtype, threads string) measurement) error {
	title := fmt.Sprintf("Generation, %d tokens after %d, ", newTokens, promptTokens)
	if h.cache != "" {
		title += "cache in " + h.cache + ", "
	}
	t := &table{Title: title + name, OurName: "trireme", TheirName: name, Comparison: "generate"}
	return h.table(t, func(t *table) error {
		for _, threads := range h.threads {
			for _, dtype := range dtypes {
				if !slices.Contains(h.weights, dtype) {
					continue
				}
				args := append([]string{"bench", "generate", "--model", dir, "--dtype", dtype, "--threads", threads}, lengths...)
				if h.cache != "" {
					args = append(args, "--cache", h.cache)
				}
				figure := dtype + ", " + count(threads, "thread")
				pairs, err := h.alternate(ctx, t.Title+": "+figure, h.ours(args...), theirs(dtype, threads))
				if err != nil {
					return err
				}
				var rows []row
				for _, m := range generateMetrics {
					r, err := t.row(figure+": "+m, pairs, m)
					if err != nil {
						return err
					}
					r.Threads = threads
					rows = append(rows, r)
				}
				var shares []float64
				for _, p := range pairs {
					share, err := number(p.ours, "read_share")
					if err != nil {
						return err
					}
					shares = append(shares, share)
				}
				t.Notes = append(t.Notes, fmt.Sprintf("%s: a plain read of the weights takes %.2f of trireme's time of a token; the first %d of %d tokens are the same.",
					figure, median(shares), sameTokens(pairs[0]), newTokens))
				if err := h.add(t, rows...); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// sameTokens is the number of tokens before the first that differs.
func sameTokens(p pair) (n int) {
	ours, _ := p.ours["tokens"].([]any)
	theirs, _ := p.theirs["tokens"].([]any)
	for n < min(len(ours), len(theirs)) && ours[n] == theirs[n] {
		n++
	}
	return n
}

// generateModel returns the directory of the model and the GGUF files by type of weights. A model of -model has its files in
// the temporary directory. The other is made once, in the user's cache directory.
func (h *harness) generateModel(ctx context.Context) (dir string, files map[string]string, err error) {
	dir, ggufs := h.model, h.dir
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", nil, fmt.Errorf("no directory for a model: %w. try: -model DIR", err)
		}
		dir = filepath.Join(cache, "trireme", "bench", "qwen2-0.5b")
		ggufs = dir
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", nil, err
		}
		unlock, err := flock.Lock(ctx, dir+".lock", 0o644, func() { fmt.Fprintln(h.progress, "waiting for another command that writes", dir) })
		if err != nil {
			return "", nil, err
		}
		defer unlock()
		if err := h.once(filepath.Join(dir, "complete"), func() error {
			_, err := writeModel(dir, []byte(qwenConfig), normal)
			return err
		}); err != nil {
			return "", nil, err
		}
	}
	files = map[string]string{}
	for _, dtype := range h.weights {
		target := filepath.Join(ggufs, "gguf-"+ggufTypes[dtype])
		files[dtype] = filepath.Join(target, "model.gguf")
		if err := h.once(target+"-complete", func() error {
			if err := os.RemoveAll(target); err != nil {
				return err
			}
			_, err := output(command(ctx, h.trireme, "convert", "--to", "gguf", "--dtype", ggufTypes[dtype], dir, target))
			return err
		}); err != nil {
			return "", nil, err
		}
	}
	return dir, files, nil
}

// once calls write unless the file marks that an earlier command did.
func (h *harness) once(mark string, write func() error) error {
	if _, err := os.Stat(mark); err == nil {
		return nil
	}
	fmt.Fprintln(h.progress, "writing", mark)
	if err := write(); err != nil {
		return err
	}
	return os.WriteFile(mark, nil, 0o644)
}

// normal sets data to the initial values of a parameter in bfloat16.
func normal(data []byte, p *nn.Param, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := 0; i < len(data); i += 2 {
		x := 0.0
		switch p.Init.Kind {
		case nn.Ones:
			x = 1
		case nn.Normal:
			x = rng.NormFloat64() * p.Init.Std
		}
		binary.LittleEndian.PutUint16(data[i:], uint16(math.Float32bits(float32(x))>>16))
	}
}
