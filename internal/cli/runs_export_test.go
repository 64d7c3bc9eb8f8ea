package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestExportReaders reads a Parquet file of three runs with different metrics with pyarrow and DuckDB.
func TestExportReaders(t *testing.T) {
	const name = "TRACKERS_PYTHON"
	python := os.Getenv(name)
	if python == "" {
		t.Skipf("SKIPPED: %s is not set: a Python with pyarrow (pip install pyarrow duckdb)", name)
	}
	if out, err := exec.Command(python, "-c", "import pyarrow.parquet").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: %s has no package pyarrow (pip install pyarrow duckdb): %v %s", name, err, out)
	}
	root := t.TempDir()
	dirs := []string{filepath.Join(root, `it's "a"`), filepath.Join(root, "b"), filepath.Join(root, "c, ü")}
	for i, lines := range []string{
		`{"step":1,"loss":2.5}` + "\n" + `{"step":2,"loss":null,"nonfinite":true}`,
		`{"step":1,"loss":1e-300,"grad_norm":3}`,
		`{"step":1,"loss":4,"means":{"kl \"x\"":0.25}}` + "\n" + `{"step":1,"eval_loss":5}`,
	} {
		if err := os.MkdirAll(dirs[i], 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dirs[i], "metrics.jsonl"), []byte(lines+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	file := filepath.Join(root, "all.parquet")
	cmd := newRuns()
	cmd.SetArgs(append([]string{"export", "--to", file}, dirs...))
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	reader := exec.Command(python, "testdata/export.py", file)
	var errs strings.Builder
	reader.Stderr = &errs
	text, err := reader.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	var got struct {
		Types   map[string]string
		PyArrow []map[string]any
		DuckDB  []map[string]any
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	const quoted, number = `means.kl "x"`, "double"
	if want := map[string]string{"run": "string", "step": number, "loss": number, "grad_norm": number, "eval_loss": number, "tokens_total": number, quoted: number}; !reflect.DeepEqual(got.Types, want) {
		t.Errorf("types %v, want %v", got.Types, want)
	}
	row := func(run string, values map[string]any) map[string]any {
		all := map[string]any{"run": run, "step": 1.0, "loss": nil, "grad_norm": nil, "eval_loss": nil, "tokens_total": 0.0, quoted: nil}
		for k, v := range values {
			all[k] = v
		}
		return all
	}
	want := []map[string]any{
		row(dirs[0], map[string]any{"loss": 2.5}), row(dirs[0], map[string]any{"step": 2.0, "loss": "NaN"}),
		row(dirs[1], map[string]any{"loss": 1e-300, "grad_norm": 3.0}),
		row(dirs[2], map[string]any{"loss": 4.0, quoted: 0.25}), row(dirs[2], map[string]any{"eval_loss": 5.0}),
	}
	readers := map[string][]map[string]any{"pyarrow": got.PyArrow}
	if got.DuckDB == nil {
		t.Log("SKIPPED: the part of DuckDB: no package duckdb")
	} else {
		readers["duckdb"] = got.DuckDB
	}
	for name, rows := range readers {
		if fmt.Sprint(rows) != fmt.Sprint(want) {
			t.Errorf("%s:\n%v, want\n%v", name, rows, want)
		}
	}
}
