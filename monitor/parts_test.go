package monitor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stepsOf lists the steps of the records in all parts.
func stepsOf(t *testing.T, path string) (steps []int64, files []string) {
	t.Helper()
	parts, err := Parts(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		files = append(files, filepath.Base(p.Path))
		b, err := os.ReadFile(p.Path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			r, _, err := Parse([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, r.Step)
		}
	}
	return steps, files
}

func appendSteps(t *testing.T, path string, resumed, to, limit int64) {
	t.Helper()
	j, err := OpenJSONL(path, resumed)
	if err != nil {
		t.Fatal(err)
	}
	j.Rotate(limit, nil)
	for step := resumed + 1; step <= to; step++ {
		if err := j.Record(sample(step)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// Records rotate by size, and a resumed run removes later steps from all parts. The newest line is the last of
// metrics.jsonl.
func TestRotate(t *testing.T) {
	limit := 10*int64(len(sample(1).AppendJSON(nil))) + 100
	for _, resumed := range []int64{1, 9, 10, 11, 25, 49, 50, 99, 100} {
		path := filepath.Join(t.TempDir(), "metrics.jsonl")
		appendSteps(t, path, 0, 100, limit)
		steps, files := stepsOf(t, path)
		if len(steps) != 100 || len(files) < 9 || !slices.IsSorted(steps) || !slices.IsSorted(files) || files[len(files)-1] != "metrics.jsonl" {
			t.Fatal(steps, files)
		}
		appendSteps(t, path, resumed, resumed, limit)
		if steps, files = stepsOf(t, path); int64(len(steps)) != resumed || !slices.IsSorted(steps) {
			t.Errorf("resumed at %d: %v in %q", resumed, steps, files)
		}
		appendSteps(t, path, resumed, 120, limit)
		if steps, files = stepsOf(t, path); len(steps) != 120 || !slices.IsSorted(steps) || !slices.IsSorted(files) {
			t.Errorf("resumed at %d: %v in %q", resumed, steps, files)
		}
	}
}

// A crash between two renames leaves records that the next start continues or moves aside as a whole.
func TestRotateCrash(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "metrics.jsonl")
	limit := 10*int64(len(sample(1).AppendJSON(nil))) + 100
	appendSteps(t, path, 0, 35, limit)
	if err := os.Remove(path); err != nil { // the newest file was not yet created
		t.Fatal(err)
	}
	appendSteps(t, path, 15, 20, limit)
	if steps, _ := stepsOf(t, path); len(steps) != 20 {
		t.Error(steps)
	}
	appendSteps(t, path, 0, 3, limit)
	if steps, files := stepsOf(t, path); len(steps) != 3 || len(files) != 1 {
		t.Error(steps, files)
	}
	if steps, files := stepsOf(t, filepath.Join(dir, "metrics.1.jsonl")); len(steps) != 20 || len(files) < 2 {
		t.Error(steps, files)
	}
}
