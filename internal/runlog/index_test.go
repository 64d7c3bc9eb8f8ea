package runlog

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// flattenJSON is the scanner by encoding/json.
func flattenJSON(out map[string]float64, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			flattenJSON(out, join(path, k), x)
		}
	case []any:
		for i, x := range v {
			flattenJSON(out, join(path, strconv.Itoa(i)), x)
		}
	case json.Number:
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil {
			f = math.NaN()
		}
		out[path] = f
	case bool:
		out[path] = 0
		if v {
			out[path] = 1
		}
	}
}

// A line is read as encoding/json reads it.
func FuzzLine(f *testing.F) {
	f.Add(string(sample(3).AppendJSON(nil)))
	f.Add(`{"step":1,"loss":null,"nonfinite":true,"a":{"b":[1,2.5e3,-0],"c\u0041":true}}`)
	f.Add(`{"step":1e2,"eval_loss":2,"means":{"x":1},"a":"\"","é":3}`)
	f.Add(`{"step":01}`)
	f.Fuzz(func(t *testing.T, line string) {
		n := newNames()
		s := scanner{names: n, evals: map[int]int{}}
		_, err := s.scan([]byte(line))
		if !json.Valid([]byte(line)) {
			if err == nil {
				t.Fatalf("%q is no JSON, and was read as %v", line, s.cells)
			}
			return
		}
		if err != nil {
			return // no step, or too deep
		}
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		var v map[string]any
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%q was read: %v", line, err)
		}
		if _, isEval := v["eval_loss"]; isEval || hasDuplicates(line) {
			return
		}
		want := map[string]float64{}
		flattenJSON(want, "", v)
		for _, c := range s.cells {
			name := n.list[c.id]
			if name == "time" {
				continue
			}
			if w, ok := want[name]; ok && !(w == c.v || w != w && c.v != c.v) {
				t.Fatalf("%q: %s is %v, want %v", line, name, c.v, w)
			}
		}
	})
}

// hasDuplicates reports whether different keys may have the same path.
func hasDuplicates(line string) bool {
	d := json.NewDecoder(strings.NewReader(line))
	seen := map[string]int{}
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		if s, ok := token.(string); ok {
			if seen[s]++; seen[s] > 1 || filepath.Ext(s) != "" {
				return true
			}
		}
	}
}

// A header with any bytes is refused or has consistent sizes.
func FuzzHeader(f *testing.F) {
	dir := f.TempDir()
	t := newTable(newNames(), 1, 0)
	t.end = 100
	for i := range int64(40) {
		t.add(i, 2*i, []cell{{colLoss, float64(i)}, {colTokens, 5}})
	}
	path := filepath.Join(dir, "a")
	if err := t.write(path, 7); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[12:], int64(len(b)))
	f.Fuzz(func(t *testing.T, h []byte, size int64) {
		c, err := parseHeader(h, size)
		if err != nil {
			return
		}
		for _, name := range c.metrics() {
			col := c.columns[name]
			if !col.constant && col.offset+lengths(c.n)[0] > size {
				t.Fatalf("%s ends after the file", name)
			}
		}
	})
}

// Each damaged byte of the index is found, and the results stay right.
func TestDamagedIndex(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 1, 9000, 1<<20)
	open(t, dir)
	files, err := filepath.Glob(filepath.Join(dir, "index", "*.idx"))
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for i, change := range []func([]byte) []byte{
		func(b []byte) []byte { return nil },
		func(b []byte) []byte { return b[:len(b)/2] },
		func(b []byte) []byte { b[5] ^= 1; return b },
		func(b []byte) []byte { b[200] ^= 1; return b },
		func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		func(b []byte) []byte { return append(b, 0) },
	} {
		for _, path := range files {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, change(b), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if t.Run(strconv.Itoa(i), func(t *testing.T) { check(t, open(t, dir), 9000) }); t.Failed() {
			return
		}
	}
}

// Without write access the index is in the user's cache.
func TestCacheDirectory(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	dir := t.TempDir()
	write(t, dir, 1, 5000, 0)
	if err := os.WriteFile(filepath.Join(dir, "index"), nil, 0o644); err != nil { // not a directory
		t.Fatal(err)
	}
	check(t, open(t, dir), 5000)
	check(t, open(t, dir), 5000)
	files, _ := filepath.Glob(filepath.Join(cache, "*", "*", "*", "*.idx"))
	more, _ := filepath.Glob(filepath.Join(cache, "*", "*", "*", "*", "*", "*.idx"))
	if len(files)+len(more) == 0 {
		t.Error("no index in the cache")
	}
}

// Readers and writers of the index at one time get the same results.
func TestConcurrent(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 1, 20000, 2<<20)
	done := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			r, err := Open(dir)
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			check(t, r, 20000)
		}()
	}
	for range 4 {
		<-done
	}
}

// A million steps rotate, resume at a step in an older part, and open. RUNLOG_MILLION=1 runs all of them.
func TestMillion(t *testing.T) {
	n := int64(100_000)
	if os.Getenv("RUNLOG_MILLION") != "" {
		n = 1_000_000
	}
	dir := t.TempDir()
	write(t, dir, 1, n, n*80) // some parts
	began := time.Now()
	r := open(t, dir)
	t.Logf("first open of %d steps: %v", n, time.Since(began))
	check(t, r, n)
	began = time.Now()
	r = open(t, dir)
	s, err := r.Series("loss", 0, 0, 2000)
	t.Logf("indexed open and a curve of %d buckets: %v, %v", len(s.Buckets), time.Since(began), err)
	resumed := n / 3
	write(t, dir, resumed+1, resumed+100, n*80)
	if reset, err := r.Refresh(context.Background()); err != nil || !reset {
		t.Errorf("reset %v, %v", reset, err)
	}
	check(t, r, resumed+100)
	check(t, open(t, dir), resumed+100)
}
