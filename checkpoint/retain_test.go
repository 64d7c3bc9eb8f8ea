package checkpoint

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"trireme/internal/conf"
)

// TestKeepOnDisk: ages and sizes are those of files.
func TestKeepOnDisk(t *testing.T) {
	dir := t.TempDir()
	at := func(step int) string { return filepath.Join(dir, "checkpoints", stepDir(step)) }
	save := func(cfg Config, step int) int64 {
		saved, err := saveAlone(t, nil, dir, cfg, newTruth(1), step)
		if err != nil || len(saved.Notices) > 0 {
			t.Fatal(saved, err)
		}
		return saved.Bytes
	}
	left := func(want ...int) {
		t.Helper()
		found, err := List(filepath.Join(dir, "checkpoints"))
		var got []int
		for _, f := range found {
			got = append(got, f.Step)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("left are %v, %v; want %v", got, err, want)
		}
	}
	save(Config{}, 1)
	day := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(filepath.Join(at(1), commitName), day, day); err != nil {
		t.Fatal(err)
	}
	save(Config{Keep: Keep{KeepHours: 25}}, 2)
	left(2, 1)
	bytes := save(Config{Keep: Keep{KeepHours: 23}}, 3)
	left(3, 2)
	save(Config{Keep: Keep{KeepSize: 3 * conf.Bytes(bytes)}}, 4)
	left(4, 3, 2)
	save(Config{Keep: Keep{KeepSize: 3 * conf.Bytes(bytes)}}, 5)
	left(5, 4, 3)
	for _, bad := range []Config{{Keep: Keep{KeepEveryNSteps: -1}}, {Keep: Keep{KeepHours: -1}}} {
		if bad.Validate() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// TestKeepLastGood: a checkpoint that is invalid as soon as it is saved replaces no good one.
func TestKeepLastGood(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Keep: Keep{KeepLastN: 1, KeepSize: 1}}
	for step := 1; step <= 2; step++ {
		if _, err := saveAlone(t, nil, dir, Config{}, newTruth(1), step); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(filepath.Join(dir, "checkpoints", "step-2", rankFile(0)), 10); err != nil {
		t.Fatal(err)
	}
	s := testStore(t, SingleProcess{}, nil, dir, cfg)
	if notices := s.retain(t.Context(), 2, -1); len(notices) > 0 {
		t.Fatal(notices)
	}
	path, _, err := Latest(filepath.Join(dir, "checkpoints"), "")
	if err != nil || filepath.Base(path) != "step-1" {
		t.Errorf("the newest good one is %q, %v", path, err)
	}
}
