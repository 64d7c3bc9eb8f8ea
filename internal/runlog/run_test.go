package runlog

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"trireme/monitor"
)

// sample returns the record of a step, with values that tests can compute.
func sample(step int64) monitor.Record {
	return monitor.Record{
		Step: step, MaxSteps: 1 << 20, Time: time.Unix(1_700_000_000+step, 0), Run: "abc", Loss: lossOf(step), GradNorm: 1, LR: 1e-3, Samples: 4, Tokens: 100, LabelTokens: 96,
		StepSeconds: 0.5, WorldSize: 2, Memory: map[string]int64{"parameters": 10, "gradients": step},
	}
}

func lossOf(step int64) float64 { return 2 + math.Sin(float64(step)/50)/float64(step) }

// write appends the records of steps to a run's directory through the sink, with an evaluation every 1000 steps.
func write(t testing.TB, dir string, from, to, limit int64) {
	t.Helper()
	j, err := monitor.OpenJSONL(filepath.Join(dir, "metrics.jsonl"), from-1)
	if err != nil {
		t.Fatal(err)
	}
	j.Rotate(limit, nil)
	for step := from; step <= to; step++ {
		if err := j.Record(sample(step)); err != nil {
			t.Fatal(err)
		}
		if step%1000 == 0 {
			if err := j.Evaluate(monitor.Evaluation{Step: step, Time: time.Unix(1_700_000_000+step, 5e8), Loss: float64(step), Means: map[string]float64{"x": 1}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, dir string) *Run {
	t.Helper()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// check compares a run of n steps with the records that write wrote.
func check(t *testing.T, r *Run, n int64) {
	t.Helper()
	if rows, ignored := r.Rows(); int64(rows) != n+n/1000 || ignored != 0 {
		t.Errorf("%d rows, %d ignored: want %d steps", rows, ignored, n)
	}
	for _, name := range []string{"loss", "memory.gradients", "eval_loss", "time", "tokens_total"} {
		if n >= 1000 && !slices.Contains(r.Metrics(), name) {
			t.Errorf("no %s in %q", name, r.Metrics())
		}
	}
	for _, width := range []int{0, 10, 77, 1000} {
		for _, span := range [][2]int64{{1, 0}, {n / 3, n / 2}, {n, n}, {2, 2000}} {
			s, err := r.Series("loss", span[0], span[1], width)
			if err != nil {
				t.Fatal(err)
			}
			from, to := max(span[0], 1), span[1]
			if to == 0 || to > n {
				to = n
			}
			at := from
			for _, b := range s.Buckets {
				if b.Step != at && (b.Step%1000 != 0 || b.Step != at-1) { // or with the evaluation before
					t.Fatalf("%v, width %d: a bucket starts at step %d, want %d", span, width, b.Step, at)
				}
				low, high, count := math.Inf(1), math.Inf(-1), 0
				for ; at <= b.LastStep; at++ {
					low, high, count = min(low, lossOf(at)), max(high, lossOf(at)), count+1
				}
				if b.Min != low || b.Max != high || b.Count != count || b.Last != lossOf(at-1) || b.NonFinite != 0 || b.Mean < low-1e-9 || b.Mean > high+1e-9 {
					t.Fatalf("%v, width %d: %+v: want %v to %v of %d", span, width, b, low, high, count)
				}
				if b.Tokens != float64(100*b.LastStep) || math.Floor(b.Time) != float64(1_700_000_000+b.LastStep) {
					t.Fatalf("%+v: tokens or time", b)
				}
			}
			if at != to+1 {
				t.Errorf("%v, width %d: the last bucket ends at step %d", span, width, at-1)
			}
			if width > 0 && len(s.Buckets) > 2*width+70 && !s.Exact {
				t.Errorf("%v: %d buckets, want about %d", span, len(s.Buckets), width)
			}
		}
	}
	s, err := r.Series("eval_loss", 1, 0, 1<<20)
	if err != nil || int64(len(s.Buckets)) != n/1000 {
		t.Fatalf("%d evaluations, %v", len(s.Buckets), err)
	}
	for i, b := range s.Buckets {
		if b.Step != int64(i+1)*1000 || b.Last != float64(b.Step) {
			t.Errorf("evaluation %+v", b)
		}
	}
	for range 5 {
		step := 1 + rand.Int64N(n)
		row, ok, err := r.At(step)
		if err != nil || !ok || row.Step != step || row.Record == nil || row.Record.Loss != lossOf(step) || row.Values["memory.gradients"] != float64(step) || row.Values["tokens_total"] != float64(100*step) {
			t.Errorf("step %d: %+v, %v, %v", step, row, ok, err)
		}
		if step%1000 == 0 && len(row.Evaluations) != 1 {
			t.Errorf("step %d: no evaluation", step)
		}
	}
	rec, eval, err := r.Last()
	if err != nil || rec == nil || rec.Step != n || n >= 1000 && (eval == nil || eval.Step != n/1000*1000 || eval.Means["x"] != 1) {
		t.Errorf("last: %+v, %+v, %v", rec, eval, err)
	}
	count := int64(0)
	for line, err := range r.Records(n/2, n/2+9) {
		if err != nil {
			t.Fatal(err)
		}
		if line.Record != nil {
			if line.Record.Step != n/2+count {
				t.Errorf("record %d, want %d", line.Record.Step, n/2+count)
			}
			count++
		}
	}
	if count != min(10, n-n/2+1) {
		t.Errorf("%d records, want 10", count)
	}
}

func TestRun(t *testing.T) {
	for _, n := range []int64{3, 500, 5000, 70000} {
		for _, limit := range []int64{0, 6 << 20} {
			t.Run(fmt.Sprint(n, "/", limit), func(t *testing.T) {
				dir := t.TempDir()
				write(t, dir, 1, n, limit)
				check(t, open(t, dir), n)
				check(t, open(t, dir), n) // from the index
			})
		}
	}
}

// A live run is extended in memory, and a resumed run is read again.
func TestRefresh(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 1, 3000, 1<<20)
	r := open(t, dir)
	for _, to := range []int64{3001, 9000, 50000} {
		_, last, _ := r.Steps()
		write(t, dir, last+1, to, 3<<20)
		reset, err := r.Refresh(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		_ = reset
		check(t, r, to)
	}
	write(t, dir, 2001, 8000, 3<<20) // resumed at a step in an older part
	if reset, err := r.Refresh(context.Background()); err != nil || !reset {
		t.Errorf("reset %v, %v", reset, err)
	}
	check(t, r, 8000)
	check(t, open(t, dir), 8000)
}

func TestFollow(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 1, 10, 0)
	r := open(t, dir)
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	steps := []int64{}
	for u, err := range r.Follow(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Reset {
			steps = nil
		}
		for _, l := range u.Lines {
			steps = append(steps, l.Record.Step)
		}
		switch {
		case len(steps) == 0 && !u.Reset:
			f, _ := os.OpenFile(filepath.Join(dir, "metrics.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
			line := append(sample(11).AppendJSON(nil), '\n')
			f.Write(line[:20])
			f.Write(line[20:])
			f.Close()
		case len(steps) == 1:
			if steps[0] != 11 {
				t.Fatal(steps)
			}
			write(t, dir, 5, 7, 0)
		case len(steps) == 7:
			return
		}
	}
	t.Error(steps)
}
