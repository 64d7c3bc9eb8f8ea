package train_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

const latentConfig = `{"architectures": ["FreeTransformerForCausalLM"], "vocab_size": 40, "hidden_size": 16, "intermediate_size": 28,
	"num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16, "tie_word_embeddings": true,
	"latent_bits": %d, "latent_mode": %q, "free_bits": 0.1, "initializer_range": 0.2}`

// The Free Transformer draws its bits by row key: every strategy and number of ranks, with and without
// recomputation, gives the bits of one rank in losses, norms, divergence and evaluations. FULL_MATRIX=1 runs all
// combinations; else each pair of them occurs.
func TestLatentBitsAreTheSame(t *testing.T) {
	for m, mode := range []string{"exact", "factored"} {
		t.Run(mode, func(t *testing.T) {
			j := newResumable(t, false, false)
			config := filepath.Join(j.dir, "latent.json")
			if err := os.WriteFile(config, fmt.Appendf(nil, latentConfig, 6, mode), 0o644); err != nil {
				t.Fatal(err)
			}
			j.config.Model.Config, j.config.Training.MaxSteps = config, 5
			run := func(name string, world int, strategy string, recompute bool) *recordingSink {
				c := j.config
				c.OutputDir, c.Parallel.Strategy, c.Recompute.Enabled = filepath.Join(j.dir, name), strategy, recompute
				out := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
				j.run(t, c, world, 0, out)
				return out
			}
			one := run("one", 1, "no_shard", false)
			if len(one.steps) != 5 || len(one.evals) != 3 {
				t.Fatalf("%d steps and %d evaluations", len(one.steps), len(one.evals))
			}
			for w, world := range []int{1, 2, 4} {
				for s, strategy := range []string{"no_shard", "zero_1", "shard_grad_op", "full_shard", "hybrid_shard"} {
					for r, recompute := range []bool{false, true} {
						if !crossAll() && (m+s+r)%3 != w {
							continue
						}
						name := fmt.Sprintf("%s on %d, recomputed %t", strategy, world, recompute)
						got := run(name, world, strategy, recompute)
						for step, want := range one.steps {
							if got.steps[step] != want {
								t.Fatalf("%s: step %d: %s, on one rank %s", name, step, got.steps[step], want)
							}
						}
						for step, want := range one.evals {
							if got.evals[step] != want {
								t.Fatalf("%s: evaluation after step %d: %s, on one rank %s", name, step, got.evals[step], want)
							}
						}
					}
				}
			}
		})
	}
}
