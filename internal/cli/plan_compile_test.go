package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trireme/internal/cli"
	"trireme/internal/pjrt/pjrttest"
)

// TestPlanCompile compiles the three programs of an accumulating step for two GPUs.
func TestPlanCompile(t *testing.T) {
	plugin, cudaDir := pjrttest.CUDA(t)
	config := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(config, []byte(`{"architectures": ["LlamaForCausalLM"], "vocab_size": 128, "hidden_size": 64, "intermediate_size": 128,
		"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}`), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"plan", "--model", config, "--world_size", "2", "--gradient_accumulation_steps", "4", "--param_dtype", "bfloat16",
		"--compile", "h200", "--plugin", plugin, "--cuda_dir", cudaDir, "--json"}
	var out, errs bytes.Buffer
	if code := cli.Main(args, strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatalf("code %d: %s", code, errs.String())
	}
	for _, name := range []string{"beginning", "other micro-batches", "last micro-batch"} {
		if !strings.Contains(errs.String(), "compiling the program of the "+name+" (") {
			t.Errorf("no progress for the %s: %s", name, errs.String())
		}
	}
	type memory struct{ Peak, Arguments, Temporaries, Outputs, Alias int64 }
	var r struct {
		PerRank struct {
			Total    int64
			Compiled struct {
				Target string
				memory
				Programs []struct {
					Program string
					memory
					Operations int
				}
			}
		} `json:"per_rank"`
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	c := r.PerRank.Compiled
	if c.Target != "NVIDIA H200 141GB HBM3e" || len(c.Programs) != 3 {
		t.Fatalf("%+v", c)
	}
	peak := int64(0)
	for _, p := range c.Programs {
		peak = max(peak, p.Peak)
		if p.Operations == 0 || p.Peak < p.Arguments || p.Program != "beginning" && (p.Arguments == 0 || p.Temporaries == 0) {
			t.Errorf("%s: %+v", p.Program, p)
		}
	}
	if peak != c.Peak {
		t.Errorf("the peak is %d, that of the programs %d", c.Peak, peak)
	}
	if last := c.Programs[2]; last.Alias*10 < last.Outputs*9 {
		t.Errorf("the last program replaces %d of %d bytes in place", last.Alias, last.Outputs)
	}
}
