package train_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trireme/checkpoint"
)

func newRecording() *recordingSink {
	return &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
}

// digest is the digest of the state in a checkpoint.
func digest(t *testing.T, dir string) string {
	t.Helper()
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sum, err := c.StateDigest(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum)
}

// TestLastTier: checkpoints on disk are copied to the last tier, the last one too; without the disk a run continues from
// there; and a tier that fails stops no run.
func TestLastTier(t *testing.T) {
	for _, async := range []bool{false, true} {
		j := newResumable(t, false, false)
		last := filepath.Join(j.dir, "last")
		j.config.Checkpoint.Async = async
		j.config.Checkpoint.Tiers = []checkpoint.Tier{{SaveEveryNSteps: 2}, {Dir: last, SaveEveryNSteps: 4, KeepLastN: 2}}
		seen := newRecording()
		j.run(t, j.config, 2, 0, seen)
		steps := func() (steps []int) {
			found, err := checkpoint.List(last)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				if f.Err != nil {
					t.Error(f.Err)
				}
				steps = append(steps, f.Step)
			}
			return steps
		}
		want := digest(t, filepath.Join(j.config.OutputDir, "checkpoints", "step-11"))
		if got := steps(); len(got) != 2 || got[0] != 11 || digest(t, filepath.Join(last, "step-11")) != want {
			t.Errorf("async %v: copied steps are %v: %q", async, got, seen.notes)
		}
		for _, gone := range []string{filepath.Join(j.config.OutputDir, "checkpoints"), filepath.Join(last, "step-11")} {
			if err := os.RemoveAll(gone); err != nil {
				t.Fatal(err)
			}
		}
		from := steps()[0]
		j.config.Resume = "auto"
		j.run(t, j.config, 3, 0, seen)
		if !slices.Equal(seen.begun, []int64{0, int64(from)}) || digest(t, filepath.Join(j.config.OutputDir, "checkpoints", "step-11")) != want {
			t.Errorf("async %v: continued after %v: %q", async, seen.begun, seen.notes)
		}
		if err := errors.Join(os.RemoveAll(last), os.WriteFile(last, nil, 0o644), os.RemoveAll(j.config.OutputDir)); err != nil {
			t.Fatal(err)
		}
		j.config.Resume, seen = "none", newRecording()
		j.run(t, j.config, 2, 0, seen)
		failed := slices.ContainsFunc(seen.notes, func(n string) bool {
			return strings.HasPrefix(n, "the checkpoint of step 11 is not copied to "+last)
		})
		if digest(t, filepath.Join(j.config.OutputDir, "checkpoints", "step-11")) != want || !failed {
			t.Errorf("async %v, a tier that fails: %q", async, seen.notes)
		}
	}
}
