package verify

import (
	"encoding/json"
	"strings"
	"testing"
)

func report(edit func(kind Kind, o *Outcome)) *Report {
	r := &Report{
		Config: "run.yaml", Model: "llama with 4 layers of width 256", Command: "trireme verify --config=run.yaml", Date: "2026-01-02T03:04:05Z", Version: "trireme v1.2.3",
		Machine: Machine{Processor: "A Processor", Instructions: "avx2", Float32Matmul: "highest", Cores: 2, System: "linux/amd64"}, Device: "cpu", ParamDType: "float32", RowsPerStep: 16, Epochs: 0.0125,
	}
	for _, trial := range []Trial{
		{Kind: Reference, Differs: "1 rank, full_shard"},
		{Kind: Ranks, Differs: "2 ranks"},
		{Kind: Ranks, Differs: "2 ranks, parallel.strategy: no_shard", Why: "sums have another order"},
		{Kind: Resume, Differs: "stopped after steps 1, 2 and 3: 1 rank with full_shard"},
		{Kind: MicroBatches, Differs: "training.micro_batch_size: 2", Tolerance: 1e-3, Why: "gradients are rounded after each micro-batch"},
	} {
		got := outcome()
		edit(trial.Kind, &got)
		r.Rows = append(r.Rows, NewRow(trial, outcome(), got, 1.5))
	}
	r.Finish(outcome())
	return r
}

// TestReport compares reports of equal and of different runs with testdata. UPDATE=1 rewrites them.
func TestReport(t *testing.T) {
	smaller := func(k Kind, o *Outcome) {
		if k == MicroBatches {
			o.Steps[1].Loss, o.Digest = 7.2501, "ff00ff00ff00ff00"
		}
	}
	for name, r := range map[string]*Report{
		"equal": report(smaller),
		"differs": report(func(k Kind, o *Outcome) {
			if smaller(k, o); k == Ranks {
				o.Steps[2].GradNorm, o.Digest = 0.125, "ee00ee00ee00ee00"
			}
		}),
	} {
		if equal := name == "equal"; r.Equal != equal || r.Seconds != 7.5 || len(r.Steps) != 3 || r.Digest != outcome().Digest {
			t.Errorf("%s: %+v", name, r)
		}
		var text, page strings.Builder
		if err := r.Print(&text); err != nil {
			t.Fatal(err)
		}
		if err := r.Markdown(&page); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", text.String())
		golden(t, name+".md", page.String())
		object, err := json.MarshalIndent(r, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", string(object)+"\n")
	}
}
