package monitor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"trireme/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func sample(step int64) Record {
	return Record{
		Step: step, MaxSteps: 5000, Time: time.Date(2026, 1, 2, 3, 4, int(step%60), 0, time.UTC),
		Loss: 2.143099999999999, GradNorm: 0.8375, LR: 2.71e-5, Samples: 512, Tokens: 524288, LabelTokens: 523776, StepSeconds: 0.655, MFU: 0.386, PeakFLOPS: 249e9, WorldSize: 2,
		CommFraction: 0.113, DataFraction: 0.004, Memory: map[string]int64{"parameters": 10, "gradients": 20}, MemoryPeak: map[string]int64{"parameters": 11},
		Resident: Resident{Now: 614 << 30 / 10, Peak: 62 << 30, Shared: 3}, MemoryLimit: 796 << 30 / 10,
	}
}

// measured sets the fields of where the time went.
func (r *Record) measured(v float64) {
	r.StepSecondsMean, r.StepSecondsStd, r.SaveSeconds, r.EvalSeconds, r.CommSeconds, r.FLOPSPerSecond = 1+v, v, v, v, v, v
	r.Split = &trace.Split{Data: v, Forward: 2, Backward: 3, Recompute: 4, Optimizer: 5, Publish: 6, Offload: 7, Comm: 8, Wait: 9, Program: 10, Other: 11}
	r.CommOps = map[string]trace.CommOp{"all_gather/shard": {Count: 3, Bytes: 1 << 40, Seconds: v, Exposed: v}, "all_reduce/world": {Count: 1}}
	r.Ranks = &Ranks{Own: []float64{1, v}, Data: []float64{0, v}, Comm: []float64{v, 0}, Save: []float64{0, 0}}
	r.Host = &Host{CPU: &v, Load: &v, MemoryAvailable: &v, DiskFree: &v, DiskWrite: &v, NetSend: &v}
}

func TestJSONIsTheContract(t *testing.T) {
	var m map[string]any
	if err := json.Unmarshal(sample(7).AppendJSON(nil), &m); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"step", "loss", "grad_norm", "lr", "samples", "tokens", "label_tokens", "samples_per_second", "tokens_per_second", "label_tokens_per_second", "step_seconds", "mfu", "peak_flops", "memory", "world_size"} {
		if _, ok := m[k]; !ok {
			t.Errorf("%s is missing", k)
		}
	}
	if m["memory"].(map[string]any)["gradients"] != 20.0 || m["step"] != 7.0 || m["mfu"] != 0.386 || m["tokens_per_second"] != sample(7).TokensPerSecond() || m["label_tokens_per_second"] != sample(7).LabelTokensPerSecond() {
		t.Error(m)
	}
	r := sample(1)
	r.measured(0.25)
	clear(m)
	if err := json.Unmarshal(r.AppendJSON(nil), &m); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"step_seconds_mean", "step_seconds_std", "save_seconds", "eval_seconds_between", "split", "comm_seconds", "comm_ops", "flops_per_second", "ranks", "host"} {
		if _, ok := m[k]; !ok {
			t.Errorf("%s is missing", k)
		}
	}
	if host := m["host"].(map[string]any); host["cpu"] != 0.25 || host["disk_read_per_second"] != nil {
		t.Error(host)
	}
	if op := m["comm_ops"].(map[string]any)["all_gather/shard"]; op.(map[string]any)["count"] != 3.0 {
		t.Error(op)
	}
	r = sample(1)
	r.PeakFLOPS, r.Loss, r.GradNorm = 0, math.NaN(), math.Inf(1)
	clear(m)
	if err := json.Unmarshal(r.AppendJSON(nil), &m); err != nil {
		t.Fatal(err)
	}
	if m["mfu"] != nil || m["loss"] != nil || m["grad_norm"] != nil || m["nonfinite"] != true {
		t.Error(m)
	}
	acc := 0.5
	for _, e := range []Evaluation{{Step: 3, Loss: 2}, {Step: 3, Loss: 2, Accuracy: &acc}} {
		clear(m)
		if err := json.Unmarshal(e.AppendJSON(nil), &m); err != nil {
			t.Fatal(err)
		}
		_, p := m["perplexity"]
		_, a := m["accuracy"]
		if m["eval_loss"] != 2.0 || p == a {
			t.Error(m)
		}
	}
}

func TestParseRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64()
		r := sample(rapid.Int64Range(1, 1<<40).Draw(t, "step"))
		r.Loss, r.GradNorm, r.LR = f.Draw(t, "loss"), f.Draw(t, "norm"), f.Draw(t, "lr")
		r.Skipped = rapid.Bool().Draw(t, "skipped")
		if rapid.Bool().Draw(t, "measured") {
			r.measured(rapid.Float64Min(0).Draw(t, "seconds"))
		}
		if mean := f.Draw(t, "epoch"); rapid.Bool().Draw(t, "ends an epoch") {
			r.EpochLoss = &mean
		}
		got, e, err := Parse(r.AppendJSON(nil))
		if err != nil || e != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(r, *got); d != "" {
			t.Fatal(d)
		}
	})
	r := sample(1)
	r.Loss = math.Inf(-1)
	if got, _, err := Parse(r.AppendJSON(nil)); err != nil || !math.IsNaN(got.Loss) {
		t.Fatal(got, err)
	}
	if _, e, err := Parse(Evaluation{Step: 4, Loss: math.NaN()}.AppendJSON(nil)); err != nil || e.Step != 4 || !math.IsNaN(e.Loss) {
		t.Fatal(e, err)
	}
}

func TestOpenJSONLResumes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	write := func(resumed, from, to int64) {
		t.Helper()
		j, err := OpenJSONL(path, resumed)
		if err != nil {
			t.Fatal(err)
		}
		for s := from; s <= to; s++ {
			if err := errors.Join(j.Record(sample(s)), j.Evaluate(Evaluation{Step: s})); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	steps := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var s []string
		for line := range bytes.Lines(b) {
			r, e, err := Parse(line)
			switch {
			case err != nil:
				t.Fatalf("%v: %s", err, line)
			case r != nil:
				s = append(s, fmt.Sprint(r.Step))
			default:
				s = append(s, fmt.Sprintf("e%d", e.Step))
			}
		}
		return strings.Join(s, " ")
	}
	write(0, 1, 4)
	f, _ := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	f.WriteString(`{"step":5,"lo`) // killed while writing
	f.Close()
	write(2, 3, 3)
	if got := steps(path); got != "1 e1 2 e2 3 e3" {
		t.Fatal(got)
	}
	write(0, 1, 1)
	if got := steps(path) + "|" + steps(strings.Replace(path, ".jsonl", ".1.jsonl", 1)); got != "1 e1|1 e1 2 e2 3 e3" {
		t.Fatal(got)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".metrics-*")); len(left) > 0 {
		t.Fatal(left)
	}
	if _, err := OpenJSONL(filepath.Join(path, "x"), 3); err == nil {
		t.Fatal("a file is no folder")
	}
}

// shortWriter accepts n more bytes, then fails until refilled.
type shortWriter struct {
	bytes.Buffer
	n int
}

func (w *shortWriter) Write(p []byte) (int, error) {
	if len(p) <= w.n {
		w.n -= len(p)
		return w.Buffer.Write(p)
	}
	n, _ := w.Buffer.Write(p[:w.n])
	w.n = 0
	return n, errors.New("no space left")
}

// A full disk loses only the lines written meanwhile.
func TestFullDisk(t *testing.T) {
	w := &shortWriter{n: 1000}
	var reports []error
	m := Multi(func(err error) { reports = append(reports, err) }, NewJSONL(w), NewLine(&bytes.Buffer{}))
	for s := int64(1); s <= 6; s++ {
		if s == 5 {
			w.n = 1 << 20
		}
		m.Record(sample(s))
	}
	if err := m.Close(); err != nil || len(reports) != 1 {
		t.Fatal(err, reports)
	}
	whole := map[int64]bool{}
	for line := range bytes.Lines(w.Bytes()) {
		if r, _, err := Parse(line); err == nil {
			whole[r.Step] = true
		}
	}
	if !whole[1] || !whole[5] || !whole[6] || whole[4] {
		t.Fatal(whole)
	}
}

func TestLine(t *testing.T) {
	want := "step=1240/5000 loss=2.1431 lr=2.71e-05 gnorm=0.84 tok/s=800440 mfu=38.6% step_ms=655 comm=11.3% data=0.4% rss=61.4/79.6GiB eta=0h43m"
	if got := FormatLine(sample(1240), 43*time.Minute); got != want {
		t.Errorf("\n%s\n%s", got, want)
	}
	var b bytes.Buffer
	l := NewLine(&b)
	r := Record{Step: 1, Loss: math.NaN(), Skipped: true, WorldSize: 1}
	l.Record(r)
	l.Evaluate(Evaluation{Step: 1, Loss: 1, Seconds: 2})
	l.Note("saved step-1")
	want = "step=1 loss=NaN lr=0.00e+00 gnorm=0 tok/s=0 mfu=n/a step_ms=0 data=0.0% skipped (gradient not finite)\nstep=1 eval_loss=1.0000 perplexity=2.72 eval_s=2.0\nsaved step-1\n"
	if b.String() != want {
		t.Errorf("\n%s\n%s", b.String(), want)
	}
}

// Both speeds are shown if tokens have no label; the end of an epoch adds its mean loss.
func TestLineOfLabelsAndEpochs(t *testing.T) {
	mean := 2.25
	r := Record{Step: 12, Epoch: 3, LR: 1e-3, Samples: 4, Tokens: 200, LabelTokens: 50, StepSeconds: 0.5, WorldSize: 1, EpochLoss: &mean}
	var b bytes.Buffer
	NewLine(&b).Record(r)
	want := "step=12 loss=0.0000 lr=1.00e-03 gnorm=0 tok/s=400 label_tok/s=100 samples/s=8.00 mfu=n/a step_ms=500 data=0.0%\nepoch=3 step=12 mean_loss=2.2500\n"
	if b.String() != want {
		t.Errorf("\n%s\n%s", b.String(), want)
	}
	r.LabelTokens, r.EpochLoss = 4, nil
	if got := FormatLine(r, -1); !strings.Contains(got, " tok/s=400 samples/s=8.00 mfu=") {
		t.Errorf("of a classifier: %s", got)
	}
	r.LabelTokens = 196
	if got := FormatLine(r, -1); strings.Contains(got, "label_tok/s") {
		t.Error(got)
	}
}

func TestFLOPS(t *testing.T) {
	for v, want := range map[float64]string{249e9: "249 GFLOP/s", 1.24e12: "1.24 TFLOP/s", 12: "12.0 FLOP/s"} {
		if got := FLOPS(v); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

func TestEveryAndETA(t *testing.T) {
	var b bytes.Buffer
	s := Every(10, NewLine(&b))
	start := time.Now()
	for i := int64(1); i <= 25; i++ {
		r := sample(i)
		r.MaxSteps, r.Time, r.StepSeconds = 25, start.Add(time.Duration(i)*time.Minute), 30 // half of the time is evaluation
		if i == 13 {
			r.Loss = math.NaN()
		}
		if mean := 2.0; i == 16 {
			r.EpochLoss = &mean
		}
		s.Record(r)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		f := strings.Fields(line)
		if strings.HasPrefix(f[0], "epoch=") {
			f = f[1:]
		}
		got = append(got, strings.TrimPrefix(f[0], "step=")+" "+f[len(f)-1])
	}
	if want := "1/25 eta=0h12m, 10/25 eta=0h15m, 13/25 eta=0h12m, 16/25 eta=0h09m, 16 mean_loss=2.0000, 20/25 eta=0h05m, 25/25 eta=0s"; strings.Join(got, ", ") != want {
		t.Error(got)
	}
}

func TestResident(t *testing.T) {
	r, err := ReadResident()
	if err != nil || r.Now < 1<<20 || r.Peak < r.Now {
		t.Fatal(r, err)
	}
}

func FuzzParse(f *testing.F) {
	r := sample(3)
	f.Add(r.AppendJSON(nil))
	r.measured(0.5)
	f.Add(r.AppendJSON(nil))
	f.Add(Evaluation{Step: 2}.AppendJSON(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, e, err := Parse(b)
		if err == nil && (r == nil) == (e == nil) {
			t.Fatal("neither or both")
		}
	})
}

func TestFollow(t *testing.T) {
	var in, out bytes.Buffer
	j := NewJSONL(&in)
	j.Record(sample(1))
	in.WriteString("nonsense\n")
	j.Evaluate(Evaluation{Step: 1, Loss: 1})
	j.Record(sample(2))
	if err := CopyJSONL(&in, NewLine(&out)); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Error(err)
	}
	if got := strings.Count(out.String(), "\n"); got != 3 || !strings.Contains(out.String(), "step=2/5000") {
		t.Errorf("%s", out.String())
	}
}
