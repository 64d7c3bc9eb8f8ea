package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trireme/internal/cli"
)

// planOf runs plan --json.
func planOf(t *testing.T, code int, args ...string) (r struct {
	Parameters int64
	PerRank    map[string]any `json:"per_rank"`
	Strategies []struct {
		Strategy string
		PerRank  map[string]any `json:"per_rank"`
	}
}) {
	t.Helper()
	var out, errs bytes.Buffer
	if got := cli.Main(append([]string{"plan", "--json"}, args...), strings.NewReader(""), &out, &errs); got != code {
		t.Fatalf("plan %v ends with %d, not %d: %s", args, got, code, errs.String())
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestParametersOfPublishedModels checks exact parameter counts of every model of the oracle.
func TestParametersOfPublishedModels(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "shared", "data")
	text, err := os.ReadFile(filepath.Join(dir, "oracles", "parameter_counts.json"))
	if err != nil {
		t.Skip("no oracle here: ", err)
	}
	var oracle struct{ Computed map[string]int64 }
	if err := json.Unmarshal(text, &oracle); err != nil {
		t.Fatal(err)
	}
	if len(oracle.Computed) < 20 {
		t.Fatalf("the oracle has %d models", len(oracle.Computed))
	}
	for name, want := range oracle.Computed {
		args := []string{"--model", filepath.Join(dir, "hfconfigs", strings.Fields(name)[0]+".config.json")}
		if strings.Contains(name, "BertModel") { // it has no head: here with one of two labels
			args, want = append(args, "--set", "model.task=sequence_classification"), want+2*768+2
		}
		if r := planOf(t, 0, args...); r.Parameters != want {
			t.Errorf("%s has %d parameters, want %d", name, r.Parameters, want)
		}
	}
}

// TestPlanOfPublishedModels checks that parameter counts are exact, that categories add up to the total,
// and that a rank keeps 2+4+4+8 bytes per parameter in bfloat16, plus padding.
func TestPlanOfPublishedModels(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "shared", "data", "hfconfigs")
	for name, want := range map[string]int64{ // the models' own files, as Hugging Face publishes their sizes
		"llama-2-7b": 6738415616, "llama-3.1-8b": 8030261248, "llama-3.1-405b": 405853388800, "gpt2-xl": 1557611200,
		"qwen2-7b": 7615616512, "mistral-7b-v0.1": 7241732096, "tinyllama-1.1b": 1100048384,
	} {
		path := filepath.Join(dir, name+".config.json")
		if _, err := os.Stat(path); err != nil {
			t.Skip("no configurations here: ", err)
		}
		const ranks = 16384
		r := planOf(t, 0, "--model", path, "--world_size", "16384", "--param_dtype", "bfloat16")
		if r.Parameters != want {
			t.Errorf("%s has %d parameters, want %d", name, r.Parameters, want)
		}
		total, sum := int64(0), int64(0)
		for key, v := range r.PerRank {
			n, ok := v.(float64)
			switch {
			case key == "total":
				total = int64(n)
			case ok && key != "offloaded":
				sum += int64(n)
			}
		}
		if total != sum || total == 0 {
			t.Errorf("%s: categories add up to %d, the total is %d", name, sum, total)
		}
		for key, bytes := range map[string]int64{"parameters": 2, "gradients": 4, "master": 4, "optimizer": 8} {
			got, least := int64(r.PerRank["at_rest"].(map[string]any)[key].(float64)), bytes*want/ranks
			if got < least || got > least+bytes*64*130 { // a block for each unit
				t.Errorf("%s: %d bytes of %s, at least %d are needed", name, got, key, least)
			}
		}
		if len(r.Strategies) != 6 {
			t.Errorf("%s: %d strategies", name, len(r.Strategies))
		}
	}
}
