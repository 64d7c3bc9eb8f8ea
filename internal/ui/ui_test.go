package ui_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trireme/internal/ui"
	"trireme/internal/ui/uitest"
)

func TestSeries(t *testing.T) {
	root, dir := write(t, plain("one", 3000))
	h := serve(t, ui.Config{Dirs: []string{root}})
	for _, c := range []struct {
		axis             string
		from, to         float64
		wantFrom, wantTo float64 // of the whole axis
	}{
		{"step", 1000, 2000, 1, 3000},
		{"tokens", 1000 * 4096, 2000 * 4096, 4096, 3000 * 4096},
		{"time", 130, 260, 0, 2999 * 0.13},
	} {
		var s series
		if code := get(t, h, "/api/series", url.Values{"run": {dir}, "metric": {"loss", "lr", "eval_loss", "none"}, "axis": {c.axis}, "from": {fmt.Sprint(c.from)}, "to": {fmt.Sprint(c.to)}, "points": {"100"}}, &s); code != 200 {
			t.Fatalf("%s: status %d", c.axis, code)
		}
		if s.Schema != "trireme.ui.series/1" || s.Axis != c.axis || len(s.Series) != 3 {
			t.Fatalf("%s: schema %q, axis %q, %d series", c.axis, s.Schema, s.Axis, len(s.Series))
		}
		if r := s.Ranges[0]; math.Abs(r.From-c.wantFrom) > 0.01 || math.Abs(r.To-c.wantTo) > 0.01 {
			t.Errorf("%s: range %v to %v, want %v to %v", c.axis, r.From, r.To, c.wantFrom, c.wantTo)
		}
		loss := s.Series[0]
		xs := s.Xs[loss.X]
		if len(xs) < 50 || len(xs) > 200 || len(loss.Mean) != len(xs) || len(loss.Min) != len(xs) {
			t.Errorf("%s: %d positions, %d means, %d minimums", c.axis, len(xs), len(loss.Mean), len(loss.Min))
		}
		margin := (c.to - c.from) / 20
		if math.Abs(xs[0]-c.from) > margin || math.Abs(xs[len(xs)-1]-c.to) > margin {
			t.Errorf("%s: positions from %v to %v, want %v to %v", c.axis, xs[0], xs[len(xs)-1], c.from, c.to)
		}
		for i := range xs {
			if !(*loss.Min[i] <= *loss.Mean[i] && *loss.Mean[i] <= *loss.Max[i]) || i > 0 && xs[i] <= xs[i-1] {
				t.Fatalf("%s: bucket %d: position %v, %v to %v, mean %v", c.axis, i, xs[i], *loss.Min[i], *loss.Max[i], *loss.Mean[i])
			}
		}
		if s.Series[1].X != loss.X {
			t.Errorf("%s: metrics of the same records have different positions", c.axis)
		}
	}
	var s series
	get(t, h, "/api/series", url.Values{"run": {dir}, "metric": {"loss"}, "from": {"10"}, "to": {"12"}}, &s)
	if one := s.Series[0]; len(one.Mean) != 3 || one.Min != nil || s.Xs[0][0] != 10 {
		t.Errorf("steps 10 to 12: %d values from %v, minimums %v", len(one.Mean), s.Xs[0], one.Min)
	}
}

// TestPage checks that the page has no scripts or styles within, and loads nothing from elsewhere.
func TestPage(t *testing.T) {
	files, err := filepath.Glob("page/*")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	h := serve(t, ui.Config{Dirs: []string{t.TempDir()}})
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(b), "http://www.w3.org/2000/svg", "")
		for _, bad := range []string{"http:", "https:", "//cdn", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "@import", "url(", "<style", " style=\"", " onclick=\""} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %q", f, bad)
			}
		}
		res, err := h.Client().Get(h.URL + "/" + filepath.Base(f))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || string(got) != string(b) || res.Header.Get("Content-Type") == "" || res.Header.Get("ETag") == "" {
			t.Errorf("%s: status %d, %d of %d bytes, type %q, %v", f, res.StatusCode, len(got), len(b), res.Header.Get("Content-Type"), err)
		}
	}
}

// TestLive checks that a record is announced within a second, and that clients that are gone leave nothing; goleak
// checks for goroutines.
func TestLive(t *testing.T) {
	r := plain("one", 20)
	r.Exit = nil
	root, dir := write(t, r)
	h := serve(t, ui.Config{Dirs: []string{root}})
	get(t, h, "/api/runs", nil, nil)
	for range 3 {
		res, err := h.Client().Get(h.URL + "/api/live")
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(res.Body)
		if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "retry") {
			t.Fatal(line, err)
		}
		f, err := os.OpenFile(filepath.Join(dir, "metrics.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		b := r.Record(int64(r.Steps)+1, time.Now()).AppendJSON(nil)
		r.Steps++
		_, err = f.Write(append(b, '\n'))
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, fmt.Sprintf(`"step":%d,`, r.Steps)) {
				break
			}
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("announced after %v", d)
		}
		res.Body.Close()
	}
}

// TestThousandRuns checks that the list of a thousand runs needs no index of them.
func TestThousandRuns(t *testing.T) {
	root := t.TempDir()
	first := filepath.Join(root, "a", "run-0000")
	if err := plain("run", 300).Write(first); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < 1000; i++ {
		dir := filepath.Join(root, string(rune('a'+i%3)), fmt.Sprintf("run-%04d", i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"run.json", "metrics.jsonl", "config.yaml"} {
			if err := os.Link(filepath.Join(first, name), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	h := serve(t, ui.Config{Dirs: []string{root}})
	var list struct {
		Runs []struct {
			Name string
			Step int
			Loss *float64
		}
	}
	start := time.Now()
	get(t, h, "/api/runs", nil, &list)
	took := time.Since(start)
	if len(list.Runs) != 1000 || list.Runs[999].Step != 300 || list.Runs[999].Loss == nil {
		t.Fatalf("%d runs, the last is %+v", len(list.Runs), list.Runs[len(list.Runs)-1])
	}
	if took > 5*time.Second {
		t.Errorf("the list took %v", took)
	}
	t.Logf("the list of 1000 runs took %v", took)
	if _, err := os.Stat(filepath.Join(first, "index")); err == nil {
		t.Error("the list made an index")
	}
}

func TestNames(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"a/run", "b/run", "b/deep/other"} {
		if err := plain("x", 1).Write(filepath.Join(root, dir)); err != nil {
			t.Fatal(err)
		}
	}
	h := serve(t, ui.Config{Dirs: []string{root, filepath.Join(root, "a"), filepath.Join(root, "none")}})
	var list struct{ Runs []struct{ ID, Name string } }
	get(t, h, "/api/runs", nil, &list)
	names := map[string]bool{}
	for _, r := range list.Runs {
		names[r.Name] = true
	}
	if len(list.Runs) != 3 || !names["a/run"] || !names["b/run"] || !names["other"] {
		t.Errorf("runs %v", list.Runs)
	}
}

func TestCompare(t *testing.T) {
	root := t.TempDir()
	a, b := plain("a", 5), plain("b", 5)
	b.Config = "training: {learning_rate: 3e-3}\nname: \"<script>alert(1)</script>\"\n"
	for _, r := range []uitest.Run{a, b} {
		if err := r.Write(filepath.Join(root, r.Name)); err != nil {
			t.Fatal(err)
		}
	}
	h := serve(t, ui.Config{Dirs: []string{root}})
	var c struct {
		Keys []struct {
			Key     string
			Values  []*string
			Differs bool
		}
	}
	if code := get(t, h, "/api/compare", url.Values{"run": {filepath.Join(root, "a"), filepath.Join(root, "b")}}, &c); code != 200 {
		t.Fatal(code)
	}
	if len(c.Keys) != 2 || !c.Keys[0].Differs || c.Keys[0].Key != "name" || c.Keys[0].Values[0] != nil || !c.Keys[1].Differs || *c.Keys[1].Values[1] != "3e-3" {
		t.Errorf("%+v", c.Keys)
	}
}

func TestTrace(t *testing.T) {
	root, dir := write(t, plain("one", 20))
	if err := uitest.WriteTrace(dir, 3, 4, 6, 1); err != nil {
		t.Fatal(err)
	}
	h := serve(t, ui.Config{Dirs: []string{root}})
	type answer struct {
		Schema string
		Length float64
		Steps  string
		Ranks  []struct{ Rank int }
		Kinds  []string
		Tracks []struct {
			Rank   int
			Stream string
			Depth  int
			Spans  [][9]int64
		}
	}
	q := url.Values{"run": {dir}, "file": {"steps-10-13.perfetto-trace"}, "points": {"4000"}}
	var full answer
	if code := get(t, h, "/api/trace", q, &full); code != 200 {
		t.Fatal(code)
	}
	if full.Steps != "steps 10 to 13" || len(full.Ranks) != 3 || full.Length < 1e6 {
		t.Errorf("%s, %d ranks, %v ns", full.Steps, len(full.Ranks), full.Length)
	}
	steps := 0
	for _, tr := range full.Tracks {
		last := int64(0)
		for _, s := range tr.Spans {
			if s[0] < last || s[1] < s[0] {
				t.Fatalf("rank %d %s depth %d: a span from %d to %d after one until %d", tr.Rank, tr.Stream, tr.Depth, s[0], s[1], last)
			}
			last = s[1]
			if full.Kinds[s[2]] == "step" {
				steps++
			}
		}
	}
	if steps != 12 {
		t.Errorf("%d spans of steps, want 12", steps)
	}
	q.Set("points", "10")
	var coarse answer
	get(t, h, "/api/trace", q, &coarse)
	merged, count := 0, int64(0)
	for _, tr := range coarse.Tracks {
		merged += len(tr.Spans)
		for _, s := range tr.Spans {
			count += max(1, s[8])
		}
	}
	all := int64(0)
	for _, tr := range full.Tracks {
		all += int64(len(tr.Spans))
	}
	if count != all || int64(merged) > all/2 {
		t.Errorf("10 points: %d spans for %d of %d", merged, count, all)
	}
}
