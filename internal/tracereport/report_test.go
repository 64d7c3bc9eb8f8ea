package tracereport

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trireme/internal/tracefile"
	"trireme/trace"
)

// golden compares a report with testdata/NAME.txt; UPDATE=1 writes it.
func golden(t *testing.T, name string, tr *tracefile.Trace) *Report {
	t.Helper()
	r, err := New(tr)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	screen := strings.Split(b.String(), "\n")
	for _, line := range screen {
		if len(line) > 80 || len(screen) > 40 {
			t.Errorf("%d lines, one of %d columns: %s", len(screen), len(line), line)
		}
	}
	path := filepath.Join("testdata", name+".txt")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%s: got\n%s\nwant\n%s\ntry: UPDATE=1 go test", path, b.Bytes(), want)
	}
	return r
}

// part returns a part of a report.
func part(t *testing.T, r *Report, name, detail string) Part {
	t.Helper()
	for _, p := range append(r.Parts, r.Units...) {
		if p.Name == name && p.Detail == detail {
			return p
		}
	}
	t.Fatalf("no part %s %s in %+v", name, detail, r.Parts)
	return Part{}
}

// near checks seconds against milliseconds.
func near(t *testing.T, what string, seconds, want float64) {
	t.Helper()
	if math.Abs(seconds*1e3-want) > 0.02 {
		t.Errorf("%s: %.3f ms, want %.3f", what, seconds*1e3, want)
	}
}

// checkSums checks that the parts of a report, and of each rank, sum to the step.
func checkSums(t *testing.T, r *Report) {
	t.Helper()
	sum := 0.0
	for _, p := range r.Parts {
		if p.Detail == "" {
			sum += p.Seconds
		}
	}
	near(t, "sum of parts", sum, r.Step*1e3)
	for _, k := range r.Ranks {
		sum := 0.0
		for _, s := range k.Classes {
			sum += s
		}
		near(t, "sum of a rank", sum, k.Seconds*1e3)
	}
}

func TestEven(t *testing.T) {
	r := golden(t, "even", planned(4, -1, -1))
	checkSums(t, r)
	// 0.1 data, 1 gather, 8 forward, 16 backward, 1 reduce, 1 update
	near(t, "step", r.Step, 27.1)
	near(t, "exposed all-gather", part(t, r, "exposed communication", "all_gather/shard").Seconds, 1)
	near(t, "exposed reduce-scatter", part(t, r, "exposed communication", "reduce_scatter/shard").Seconds, 1)
	near(t, "hidden", r.Ranks[0].Hidden, 6)
	near(t, "without forward", part(t, r, "compute", "forward").Without, 22.1) // its all-gathers are then exposed: 3 ms more
	near(t, "without reduce-scatter", part(t, r, "exposed communication", "reduce_scatter/shard").Without, 26.1)
	near(t, "without layers.0", part(t, r, "unit", "layers.0").Without, 23.1) // 1 ms of the next all-gather is exposed, and 1 ms more of the last two reduce-scatters
}

func TestSlowRank(t *testing.T) {
	r := golden(t, "slow_rank", planned(4, 2, -1))
	checkSums(t, r)
	near(t, "waiting on rank 2", part(t, r, "waiting on other ranks", "rank 2").Seconds, 0.75*9)
	near(t, "without", part(t, r, "waiting on other ranks", "rank 2").Without, 27.1)
	if !strings.HasPrefix(r.Gain, "waiting on rank 2, which spends 37 ms a step on compute, others 25 ms") {
		t.Error(r.Gain)
	}
}

func TestSlowData(t *testing.T) {
	r := golden(t, "slow_data", planned(4, -1, 1))
	checkSums(t, r)
	if !strings.HasPrefix(r.Gain, "data of rank 1, 20 ms a step, others 100 us: a step would take 27 ms") {
		t.Error(r.Gain)
	}
	near(t, "without data", part(t, r, "data", "").Without, 27)
}

// TestCheckpoint: a checkpoint after a step counts with that step.
func TestCheckpoint(t *testing.T) {
	tr := planned(2, -1, -1)
	for i := range tr.Ranks {
		k := &tr.Ranks[i]
		end := int64(0)
		for _, s := range k.Spans {
			end = max(end, s.End)
		}
		k.Spans = append(k.Spans, trace.Span{Start: end, End: end + 60*ms, Step: 11, Kind: trace.Checkpoint})
	}
	r, err := New(tr)
	if err != nil {
		t.Fatal(err)
	}
	checkSums(t, r)
	near(t, "checkpoint", part(t, r, "checkpoint", "").Seconds, 30)
	if !strings.HasPrefix(r.Gain, "checkpoint: a step would take 27.1 ms") {
		t.Error(r.Gain)
	}
}

// TestTwoWindows: the time between two windows of steps is in no step.
func TestTwoWindows(t *testing.T) {
	tr := planned(2, -1, -1)
	later := planned(2, -1, -1)
	for i, k := range later.Ranks {
		k.Shift(5000 * ms)
		for j := range k.Spans {
			k.Spans[j].Step += 100
			k.Spans[j].Seq += 100
		}
		tr.Ranks[i].Spans = append(tr.Ranks[i].Spans, k.Spans...)
	}
	r, err := New(tr)
	if err != nil {
		t.Fatal(err)
	}
	checkSums(t, r)
	near(t, "step", r.Step, 27.1)
	near(t, "without layers.0", part(t, r, "unit", "layers.0").Without, 23.1)
}

// TestOneRank: without the other ranks' spans, Ready says when they arrived.
func TestOneRank(t *testing.T) {
	tr := planned(4, 2, -1)
	tr.Ranks = tr.Ranks[:1]
	r, err := New(tr)
	if err != nil {
		t.Fatal(err)
	}
	checkSums(t, r)
	near(t, "waiting", part(t, r, "waiting on other ranks", "ranks that the trace lacks").Seconds, 9)
}

func TestKineto(t *testing.T) {
	tr, err := tracefile.Read("../tracefile/testdata/kineto")
	if err != nil {
		t.Fatal(err)
	}
	r := golden(t, "kineto", tr)
	checkSums(t, r)
	if p := part(t, r, "waiting on other ranks", "rank 1"); p.Seconds < 0.005 {
		t.Errorf("rank 1 sleeps 10 ms a step, and the others wait %v s", p.Seconds)
	}
	if !strings.HasPrefix(r.Gain, "waiting on rank 1, which spends 10.8 ms a step on idle") {
		t.Error(r.Gain)
	}
}

// TestKinetoDevice: exposed communication is where a collective's kernel runs and no other.
func TestKinetoDevice(t *testing.T) {
	tr, err := tracefile.ReadChrome(strings.NewReader(`{"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#5","pid":9,"tid":9,"ts":0,"dur":1000},
{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":100,"dur":200},
{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":8,"ts":250,"dur":150},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllGather_RING_LL","pid":0,"tid":20,"ts":200,"dur":500},
{"ph":"X","cat":"kernel","name":"gemm2","pid":0,"tid":7,"ts":700,"dur":100},
{"ph":"X","cat":"user_annotation","name":"enumerate(DataLoader)#_","pid":9,"tid":9,"ts":750,"dur":100}]}`), "rank0.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(tr)
	if err != nil {
		t.Fatal(err)
	}
	checkSums(t, r)
	near(t, "compute", part(t, r, "compute", "").Seconds, 0.4)
	near(t, "exposed", part(t, r, "exposed communication", "all_gather").Seconds, 0.3)
	near(t, "data", part(t, r, "data", "").Seconds, 0.05)
	near(t, "hidden", r.Ranks[0].Hidden, 0.2)
	near(t, "without the all-gather", part(t, r, "exposed communication", "all_gather").Without, 0.7)
}

func TestNoStep(t *testing.T) {
	if _, err := New(&tracefile.Trace{Ranks: []tracefile.Rank{{}}}); err == nil {
		t.Error("a trace without steps has a report")
	}
}
