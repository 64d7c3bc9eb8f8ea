package trackers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"trireme/monitor"
	"trireme/trace"
)

// quick are limits for tests.
var quick = limits{events: 8, gather: time.Millisecond, request: 200 * time.Millisecond, retry: 10 * time.Millisecond, flush: 300 * time.Millisecond}

// notes collects what a tracker prints.
type notes struct {
	mu  sync.Mutex
	all []string
}

func (n *notes) print(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, text)
}

func (n *notes) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.all, "\n")
}

func testRun(t *testing.T, n *notes) Run {
	t.Helper()
	params, err := ParseParams("name: run\ntraining:\n  learning_rate: 0.001\n  betas: [0.9, 0.95]\nmodel: {path: \"a\\x1b[31m\", on: true}\nempty:\n")
	if err != nil {
		t.Fatal(err)
	}
	r := Run{ID: "abc123", Name: "run-1", Dir: t.TempDir(), Started: time.Now(), Params: params, Lookup: func(string) (string, bool) { return "", false }}
	if n != nil {
		r.Print = n.print
	}
	return r
}

func testRecord(step int64) monitor.Record {
	return monitor.Record{
		Step: step, MaxSteps: 3, Time: time.Now(), Loss: 4 / float64(step), GradNorm: math.Inf(1), LR: 0.5, Samples: 2, Tokens: 64, LabelTokens: 62, StepSeconds: 0.25, WorldSize: 2,
		Means: map[string]float64{"aux\x1b\n\"x\\": 1}, Memory: map[string]int64{"parameters": 1 << 20}, MemoryPeak: map[string]int64{"total": 1 << 21},
		Split: &trace.Split{Forward: 0.1, Backward: 0.1, Comm: 0.05}, CommSeconds: 0.08, Skew: 1.5, SlowRank: 1,
		CommOps: map[string]trace.CommOp{"all_gather/shard": {Count: 3, Bytes: 3 << 20, Seconds: 0.08, Exposed: 0.05}},
		Ranks:   &monitor.Ranks{Own: []float64{0.2, 0.25}, Data: []float64{0, 0}, Comm: []float64{0.05, 0}, Save: []float64{0, 0}},
	}
}

func testHistograms(step int64) monitor.Histograms {
	counts := make([]int64, monitor.HistogramBuckets)
	monitor.CountBuckets(counts, []float32{0, 1, 1.2, -3, 0.5, 1e-20, float32(math.NaN())}, 1)
	return monitor.Histograms{Step: step, Time: time.Now(), Weights: []monitor.Histogram{{Name: "layers.0.w", Counts: counts}}, Gradients: []monitor.Histogram{{Name: "layers.0.w", Counts: counts}}}
}

// feed passes a short run to a sink: 3 steps, histograms, an evaluation and a note.
func feed(s monitor.Sink) {
	for step := range int64(3) {
		s.Record(testRecord(step + 1))
	}
	monitor.WriteHistograms(s, testHistograms(3))
	s.Evaluate(monitor.Evaluation{Step: 3, Time: time.Now(), Loss: math.NaN(), Tokens: 10, Seconds: 1, WorldSize: 2})
	s.Note("saved \x1b[31m checkpoint")
}

func TestParams(t *testing.T) {
	b, _ := json.Marshal(tree(testRun(t, nil).Params))
	if got, want := string(b), `{"empty":"","model":{"on":true,"path":"a\\x1b[31m"},"name":"run","training":{"betas":"[0.9 0.95]","learning_rate":0.001}}`; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

// A server that is gone, hangs, refuses or breaks does not slow the run, is noted once, and ends within the limit.
func TestBrokenServers(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	servers := map[string]http.HandlerFunc{
		"hangs": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		},
		"refuses": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no\x1b[31m", http.StatusForbidden) },
		"repeats": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, fmt.Sprint(r.Header), http.StatusUnauthorized)
		},
		"fails":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"nonsense": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") },
		"redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		},
		"endless": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		},
	}
	for name, handler := range servers {
		server := httptest.NewServer(handler)
		defer server.Close()
		for kind, open := range map[string]func(Run) monitor.Sink{
			"mlflow": func(r Run) monitor.Sink {
				return newQueue("mlflow", newMLflow(monitor.MLflow{URL: server.URL}, r), r, quick)
			},
			"trackio": func(r Run) monitor.Sink {
				return newQueue("trackio", newTrackio(monitor.Trackio{URL: server.URL}, r), r, quick)
			},
			"otlp": func(r Run) monitor.Sink { return newOTLP(monitor.OTLP{URL: server.URL, Traces: true}, r, quick) },
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				n := &notes{}
				r := testRun(t, n)
				r.Lookup = func(string) (string, bool) { return "sesame=sesame", true }
				s := open(r)
				began := time.Now()
				for i := range int64(200) {
					if err := s.Record(testRecord(i + 1)); err != nil {
						t.Fatal(err)
					}
				}
				if took := time.Since(began); took > 100*quick.request { // 200 that wait take twice as long
					t.Errorf("200 records took %v", took)
				}
				began = time.Now()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > quick.flush+2*time.Second {
					t.Errorf("Close took %v", took)
				}
				text := n.text()
				accepts := kind == "otlp" && name == "endless" // a reply of 200 is a success
				if lines := strings.Count(text, "\n") + 1; !accepts && (lines > 2 || !strings.Contains(text, "were not delivered")) {
					t.Errorf("%q", text)
				}
				if strings.Contains(text, "sesame") || strings.Contains(text, "\x1b") {
					t.Errorf("a note has a secret or a control character: %q", text)
				}
			})
		}
	}
}

// TestOutage checks that a tracker that comes back gets what waited, in order and once.
func TestOutage(t *testing.T) {
	n := &notes{}
	s := &flaky{broken: true}
	q := newQueue("x", s, testRun(t, n), quick)
	for i := range int64(4) {
		q.Record(testRecord(i + 1))
	}
	time.Sleep(50 * time.Millisecond)
	s.set(false)
	q.Close()
	if got := s.steps; len(got) != 4 || got[0] != 1 || got[3] != 4 || !s.finished {
		t.Errorf("steps %v, finished %v", got, s.finished)
	}
	if got := n.text(); got != "x: down; training continues, and metrics.jsonl has all records\nx: records are delivered again" {
		t.Errorf("%q", got)
	}
}

type flaky struct {
	mu       sync.Mutex
	broken   bool
	steps    []int64
	finished bool
}

func (f *flaky) set(broken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = broken
}

func (f *flaky) send(_ context.Context, events []event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken {
		return errors.New("down")
	}
	for _, e := range events {
		f.steps = append(f.steps, e.record.Step)
	}
	return nil
}

func (f *flaky) finish(context.Context, End) error {
	f.finished = true
	return nil
}

// absent is a tracker that is away; it counts the sends whose context is not over.
type absent struct{ sends atomic.Int64 }

func (a *absent) send(ctx context.Context, _ []event) error {
	if ctx.Err() == nil {
		a.sends.Add(1)
	}
	return errors.New("away")
}

func (a *absent) finish(ctx context.Context, _ End) error { return ctx.Err() }

// TestAway checks that the flush to a tracker that was away is one attempt, however many batches wait, and that
// one that is away for the first time in the flush gets a second.
func TestAway(t *testing.T) {
	l := limits{events: 4 * maxBatch, request: time.Minute, flush: time.Minute}
	for _, c := range []struct {
		events, sends int64
		gather, retry time.Duration
	}{
		{3*maxBatch + 1, 1, time.Millisecond, time.Hour}, // away before
		{maxBatch / 2, 2, time.Hour, time.Millisecond},   // first sent by Close
	} {
		n, a := &notes{}, &absent{}
		l.gather, l.retry = c.gather, c.retry
		q := newQueue("x", a, testRun(t, n), l)
		for i := range c.events {
			q.Record(testRecord(i + 1))
			for i == 0 && c.sends == 1 && !q.away.Load() {
				time.Sleep(time.Millisecond)
			}
		}
		before, began := a.sends.Load(), time.Now()
		q.Close()
		if got, took := a.sends.Load()-before, time.Since(began); got != c.sends || took > 10*time.Second {
			t.Errorf("%d sends in %v, want %d", got, took, c.sends)
		}
		if got := n.text(); !strings.HasSuffix(got, fmt.Sprintf("x: %d records and notes were not delivered (away); metrics.jsonl has all records", c.events)) || strings.Count(got, "\n") != 1 {
			t.Errorf("%q", got)
		}
	}
}

// TestAwayServer checks the time of Close with a server that refuses connections, and one that never replies.
func TestAwayServer(t *testing.T) {
	free := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-free }))
	defer silent.Close()
	defer close(free)
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, url := range map[string]string{"silent": silent.URL, "gone": gone.URL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &notes{}
			l := usual
			l.gather, l.request = time.Millisecond, 100*time.Millisecond
			r := testRun(t, n)
			q := newQueue("mlflow", newMLflow(monitor.MLflow{URL: url}, r), r, l)
			q.Record(testRecord(1))
			for !q.away.Load() {
				time.Sleep(time.Millisecond)
			}
			q.Record(testRecord(2))
			began := time.Now()
			q.Close()
			if took := time.Since(began); took > l.flush*2/5+time.Second || !strings.Contains(n.text(), "2 records and notes were not delivered") {
				t.Errorf("%v: %q", took, n.text())
			}
		})
	}
}

// stuck is a sender that ignores its context, as a write to a stalled file system.
type stuck struct{ free chan struct{} }

func (s stuck) send(context.Context, []event) error {
	<-s.free
	return nil
}

func (s stuck) finish(context.Context, End) error { return nil }

func TestStuck(t *testing.T) {
	n := &notes{}
	s := stuck{make(chan struct{})}
	defer close(s.free)
	q := newQueue("x", s, testRun(t, n), quick)
	q.Record(testRecord(1))
	began := time.Now()
	q.Close()
	if took := time.Since(began); took > 3*time.Second || !strings.Contains(n.text(), "does not end") {
		t.Errorf("%v, %q", took, n.text())
	}
}
