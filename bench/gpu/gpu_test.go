package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const triremeScript = `#!/bin/sh
case "$*" in
doctor*) echo '{"schema": "devices", "plugin": "'$(cat $XDG_CACHE_HOME/trireme/plugins/file)'"}' ;;
*"--device cuda"*) echo '{"tokens_per_s": 300, "mfu": 0.3, "device_peak_mib": 70, "first_step_s": 9, "loss_first": 2, "loss_last": 1.5, "step_ms": 4}' ;;
*) printf '{\n "loss_first": 2,\n "loss_last": 1.0\n}\n' ;;
esac
`

// Its torch crashes, and its jax prints more than its result.
const pythonScript = `#!/bin/sh
case "$*" in
-c*) echo '{"python": "3.12"}' ;;
*torch_peer*) echo 'no such kernel' >&2; exit 3 ;;
*) echo warm; echo '{"tokens_per_s": 200, "first_step_s": 20}' ;;
esac
`

// One case fails, and the program of bfloat16 does not end; neither does a process that it started.
const goldenScript = `#!/bin/sh
case "$*" in
*Mixed*)
printf '\026=== RUN   TestXLAGoldenMixed\n\026=== RUN   TestXLAGoldenMixed/gpt2\n'
sleep 100 &
echo $! > pid
sleep 100 ;;
esac
cat <<END
=== RUN   TestXLAGolden
=== RUN   TestXLAGolden/gpt2/1/full_shard
    xla_test.go:200: worst deviation over 12 steps: loss 1.50e-06, grad_norm 2.00e-05
--- PASS: TestXLAGolden/gpt2/1/full_shard (0.50s)
=== RUN   TestXLAGolden/qwen2/1/full_shard
    xla_test.go:200: worst deviation over 12 steps: loss NaN, grad_norm 3.00e-01
    golden_test.go:300: step 1: loss NaN, want 6
--- FAIL: TestXLAGolden/qwen2/1/full_shard (0.50s)
END
exit 1
`

const conformanceScript = `#!/bin/sh
cat <<END
=== RUN   TestConformance
    --- PASS: TestConformance/add (0.50s)
        --- PASS: TestConformance/add/add/0x5/mixed (0.00s)
    suite.go:250: copy: element 3 is 4, want 5
    --- FAIL: TestConformance/copy (0.50s)
END
case "$*" in *a-b*) exit 1 ;; esac
`

// fake returns a harness with the scripts as programs, in a directory of its own.
func fake(t *testing.T) *harness {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{"trireme": triremeScript, "python": pythonScript, "train.test": goldenScript, "device.test": conformanceScript} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	plugins := filepath.Join(dir, "cache", "trireme", "plugins")
	if err := errors.Join(os.MkdirAll("train/testdata/golden/gpt2", 0o755), os.WriteFile("train/testdata/golden/gpt2/case.json", nil, 0o644), os.Mkdir("device", 0o755), os.MkdirAll(plugins, 0o755), os.WriteFile(filepath.Join(plugins, "file"), []byte("cuda"), 0o644)); err != nil {
		t.Fatal(err)
	}
	return &harness{device: "cuda", out: "gpu.json", trireme: "./trireme", python: "./python", golden: "./train.test", conformance: "./device.test", configs: []string{"gpt2-1k", "llama-1b", "llama-1b-4k"}, pairs: 2, budget: 20 * time.Second}
}

func readReport(t *testing.T, h *harness) (r report) {
	t.Helper()
	b, err := os.ReadFile(h.out)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A program that crashes leaves its error, and the rest goes on.
func TestCrash(t *testing.T) {
	h := fake(t)
	h.only = []string{"environment", "conformance", "curve", "speed"}
	if err := h.run(context.Background()); err == nil || !strings.Contains(err.Error(), "2 parts failed") {
		t.Errorf("error %v", err)
	}
	r := readReport(t, h)
	if e := r.Environment; e == nil || len(e.Errors) > 0 || e.Python["python"] != "3.12" || e.Devices["schema"] != "devices" || e.Devices["plugin"] != "cuda" {
		t.Errorf("environment %+v", e)
	}
	if c := r.Curve; c == nil || c.Error != "" || len(c.Runs) != 2 || c.Runs[1].Steps != 100 || *c.First != 0 || *c.Last != 0.5 {
		t.Errorf("curve %+v", c)
	}
	if c := r.Conformance; c == nil || c.Passed != 6 || len(c.Failed) != 6 || c.Failed[0] != "copy" || len(c.Messages) != 6 || !strings.Contains(c.Error, "6 operations failed") {
		t.Errorf("conformance %+v", c)
	}
	if len(r.Speed) != 3 || r.Golden != nil {
		t.Fatalf("report %+v", r)
	}
	for _, s := range r.Speed {
		ours := s.Medians["trireme"]
		if ours.TokensPerS != 300 || *ours.MFU != 0.3 || ours.DevicePeakMiB != 70 || ours.CachedStepS != 9 {
			t.Errorf("%s: trireme %+v", s.Config, ours)
		}
		if jax := s.Medians["jax"]; *jax.MFU < 0.199 || *jax.MFU > 0.201 || len(s.Ratios) != 2 || s.Ratios["jax"] != 1.5 || s.Ratios[ourFast] != 1 {
			t.Errorf("%s: jax %+v, ratios %v", s.Config, jax, s.Ratios)
		}
		crashes := 0
		for _, run := range s.Runs {
			if run.Error != "" {
				crashes++
				if run.Program != "torch" || run.Error != "exit status 3: no such kernel" {
					t.Errorf("%s: %+v", s.Config, run)
				}
			}
		}
		if len(s.Runs) != 8 || crashes != 1 {
			t.Errorf("%s: %d runs, %d crashes", s.Config, len(s.Runs), crashes)
		}
	}
}

// A part beyond its budget is killed with all processes that it started. Its output until then counts.
func TestBudget(t *testing.T) {
	h := fake(t)
	h.only, h.budget = []string{"golden", "curve"}, 6*time.Second
	began := time.Now()
	if err := h.run(context.Background()); err == nil {
		t.Error("no error")
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("took %v", took)
	}
	r := readReport(t, h)
	g := r.Golden
	if g == nil || g.Passed != 1 || g.Failed != 1 || len(g.Cases) != 3 || !strings.Contains(g.Error, "killed after") || !strings.Contains(g.Error, "exit status 1") {
		t.Fatalf("golden %+v", g)
	}
	pass, fail, open := g.Cases[0], g.Cases[1], g.Cases[2]
	if pass.Result != "PASS" || pass.Steps != 12 || *pass.Loss != 1.5e-6 || *pass.GradNorm != 2e-5 || pass.DType != "float32" || pass.Messages != nil {
		t.Errorf("%+v", pass)
	}
	if fail.Result != "FAIL" || fail.Loss != nil || len(fail.Messages) != 1 {
		t.Errorf("%+v", fail)
	}
	if open.Result != "unfinished" || open.DType != "bfloat16" {
		t.Errorf("%+v", open)
	}
	if r.Curve == nil || r.Curve.Error != "" {
		t.Errorf("curve %+v", r.Curve)
	}
	pid, err := os.ReadFile(filepath.Join("train", "pid"))
	if err != nil {
		t.Fatal(err)
	}
	if state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat"); err == nil && !strings.Contains(string(state), ") Z ") {
		t.Errorf("a process is left: %s", state)
	}
}

// Nothing starts with a flag that is wrong.
func TestFlags(t *testing.T) {
	for want, change := range map[string]func(h *harness){
		`"x" is not one of`:  func(h *harness) { h.only = []string{"x"} },
		"-pairs is 0":        func(h *harness) { h.pairs = 0 },
		`"B2" is not one of`: func(h *harness) { h.configs = []string{"A", "B2"} },
	} {
		h := fake(t)
		change(h)
		if err := h.run(context.Background()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
		if _, err := os.Stat(h.out); err == nil {
			t.Error("a report is written")
		}
	}
}

func TestTail(t *testing.T) {
	for in, want := range map[string]string{"short\n": "short", "first line\nlast": "last", "one long line": " line"} {
		if got := tail(in, 5); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
