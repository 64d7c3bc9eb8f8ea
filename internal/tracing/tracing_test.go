package tracing

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"trireme/internal/tracefile"
	"trireme/trace"
)

func TestParseWindow(t *testing.T) {
	for _, c := range []struct {
		text    string
		request bool
		want    Window
		err     string
	}{
		{"steps=10-12", false, Window{First: 10, Last: 12, Perfetto: true}, ""},
		{"steps=10", false, Window{First: 10, Last: 10, Perfetto: true}, ""},
		{"steps=10-12,format=chrome", false, Window{First: 10, Last: 12, Chrome: true}, ""},
		{"format=both, steps=1-2\n", false, Window{First: 1, Last: 2, Chrome: true, Perfetto: true}, ""},
		{"steps=3\n", true, Window{First: 1, Last: 3, Perfetto: true}, ""},
		{"steps=3-4", true, Window{}, "a request has the number of steps"},
		{"steps=0", true, Window{}, "steps count from 1"},
		{"steps=12-10", false, Window{}, "the last is not below the first"},
		{"steps=a", false, Window{}, "such as 10-12"},
		{"steps=1-20000", false, Window{}, "the limit is 10000"},
		{"step=1", false, Window{}, "is not steps="},
		{"format=svg", false, Window{}, "perfetto, chrome, both"},
		{"", false, Window{}, "is not steps="},
		{"format=chrome", false, Window{}, "steps is missing"},
	} {
		w, err := ParseWindow(c.text, c.request)
		switch {
		case c.err == "" && (err != nil || w != c.want):
			t.Errorf("%q: %+v, %v", c.text, w, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%q: %v, want %q", c.text, err, c.err)
		}
	}
}

// memoryStore is a Store of several ranks. Rank r's clock is r seconds behind.
type memoryStore struct {
	rank int
	*shared
}

type shared struct {
	mu     sync.Mutex
	values map[string][]byte
}

func (s memoryStore) Set(_ context.Context, key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key] = value
	return nil
}

func (s memoryStore) Get(ctx context.Context, key string) ([]byte, error) {
	for {
		s.mu.Lock()
		v, ok := s.values[key]
		s.mu.Unlock()
		if ok {
			return v, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

func (s memoryStore) Clock(context.Context) (time.Duration, time.Duration, error) {
	return time.Duration(s.rank) * time.Second, time.Duration(s.rank) * time.Microsecond, nil
}

// run runs steps of some ranks, each with a span of 1 ms, and returns the notes of rank 0.
func run(t *testing.T, dir string, ranks int, steps int64, windows []Window, store *shared, during func(step int64)) (notes []string) {
	t.Helper()
	all := make([]*Collector, ranks)
	recorders := make([]*trace.Recorder, ranks)
	for r := range all {
		recorders[r] = trace.New(0)
		all[r] = New(Config{Rank: r, Size: ranks, Host: "n0", Recorder: recorders[r], Windows: windows, Run: dir, Store: memoryStore{r, store}})
		all[r].SetGroups(map[string][]int{"world": {0, 1}})
		all[r].Start(1)
	}
	for step := int64(1); step <= steps; step++ {
		if during != nil {
			during(step)
		}
		requested := int64(0)
		for _, c := range all {
			requested += c.Request()
		}
		for r, c := range all {
			const ms = 1_000_000
			at := step*10*ms - int64(r)*1000*ms
			recorders[r].Add(trace.Span{Start: at, End: at + ms, Step: step, Kind: trace.Step})
			c.AfterStep(step, step+1, requested)
		}
	}
	for r := range all {
		all[ranks-1-r].Close()
	}
	return all[0].Notes()
}

func TestCollect(t *testing.T) {
	dir, store := t.TempDir(), &shared{values: map[string][]byte{}}
	notes := run(t, dir, 2, 8, []Window{{First: 7, Last: 20, Perfetto: true}, {First: 3, Last: 4, Perfetto: true, Chrome: true}}, store, nil)
	want := []string{
		"trace: steps 3 to 4, 2 ranks: 4 spans in " + dir + "/trace/steps-3-4.perfetto-trace and " + dir + "/trace/steps-3-4.json. next: trireme trace report " + dir + "/trace/steps-3-4.perfetto-trace",
		"trace: steps 7 to 8, 2 ranks: 4 spans in " + dir + "/trace/steps-7-8.perfetto-trace. next: trireme trace report " + dir + "/trace/steps-7-8.perfetto-trace",
	}
	if d := cmp.Diff(want, notes); d != "" {
		t.Error(d)
	}
	got, err := tracefile.Read(filepath.Join(dir, "trace", "steps-3-4.perfetto-trace"))
	if err != nil {
		t.Fatal(err)
	}
	for r, k := range got.Ranks {
		if k.Rank != r || len(k.Spans) != 2 || k.Spans[0].Start != 30_000_000 || k.Spans[0].Step != 3 || k.ClockUncertainty != int64(r)*1000 || !cmp.Equal(k.Groups["world"], []int{0, 1}) {
			t.Errorf("rank %d: %+v", r, k)
		}
	}
	for key, v := range store.values {
		if len(v) > 8 {
			t.Errorf("the store keeps %d bytes of %s", len(v), key)
		}
	}
}

func TestRequest(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, Request)
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if _, err := os.Stat(path); err != nil {
				time.Sleep(10 * time.Millisecond) // it is stored after it is removed
				return
			}
		}
		t.Fatal("nobody reads the request")
	}
	notes := run(t, dir, 2, 9, nil, &shared{values: map[string][]byte{}}, func(step int64) {
		switch step {
		case 2:
			write("steps=many\n")
		case 3:
			write("steps=2,format=chrome\n")
		}
	})
	if len(notes) != 2 || !strings.Contains(notes[0], `trace.request: steps is "many"`) || !strings.HasSuffix(notes[1], "steps 4 to 5, 2 ranks: 4 spans in "+dir+"/trace/steps-4-5.json. next: trireme trace report "+dir+"/trace/steps-4-5.json") {
		t.Errorf("notes %q", notes)
	}
}

// A file that is read before it is written is not a request for the default; one that stays empty is.
func TestEmptyRequest(t *testing.T) {
	r := &request{path: filepath.Join(t.TempDir(), Request), note: t.Errorf}
	write := func(text string) {
		if err := os.WriteFile(r.path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	if !r.look() || r.take() != 0 {
		t.Error("an empty file was read at once")
	}
	write("steps=2")
	if !r.look() || r.take() != 2 {
		t.Error("the request was not read")
	}
	write("")
	if !r.look() || r.take() != 0 || !r.look() || r.take() != 3 {
		t.Error("an empty file is not a request for 3 steps")
	}
}

func TestResumedAfterWindow(t *testing.T) {
	c := New(Config{Size: 1, Recorder: trace.New(0), Windows: []Window{{First: 3, Last: 4, Perfetto: true}}, Run: t.TempDir()})
	c.Start(10)
	c.Close()
	if n := c.Notes(); len(n) != 1 || n[0] != "trace: no trace of steps 3 to 4: the next step is 10" {
		t.Errorf("notes %q", n)
	}
}

// A window after the last step is named when the run ends.
func TestNotReached(t *testing.T) {
	c := New(Config{Size: 1, Windows: []Window{{First: 3, Last: 4, Perfetto: true}}})
	c.Start(1)
	c.AfterStep(1, 2, 0)
	c.Close()
	if n := c.Notes(); len(n) != 1 || n[0] != "trace: no trace of steps 3 to 4: the run ended before them" {
		t.Errorf("%q", n)
	}
}

// TestDropped: a window with more spans than are kept says how many it lacks.
func TestDropped(t *testing.T) {
	dir := t.TempDir()
	rec := trace.New(0)
	c := New(Config{Size: 1, Recorder: rec, Windows: []Window{{First: 1, Last: 1, Perfetto: true}}, Run: dir})
	c.Start(1)
	for range trace.DefaultSpans + 100 {
		rec.Add(trace.Span{Start: 1, End: 2, Step: 1, Kind: trace.Forward})
	}
	c.AfterStep(1, 2, 0)
	c.Close()
	if n := c.Notes(); len(n) != 1 || !strings.Contains(n[0], "16384 spans, 100 dropped") {
		t.Errorf("notes %q", n)
	}
	got, err := tracefile.Read(filepath.Join(dir, "trace"))
	if err != nil || got.Ranks[0].Dropped != 100 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNotWritable(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, Dir), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	notes := run(t, dir, 2, 2, []Window{{First: 1, Last: 1, Perfetto: true}}, &shared{values: map[string][]byte{}}, nil)
	if len(notes) != 1 || !strings.Contains(notes[0], "not a directory") {
		t.Errorf("notes %q", notes)
	}
}
