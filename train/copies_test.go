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
	"trireme/train"
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
		j.config.Checkpoint.Tiers = []checkpoint.Tier{{SaveEveryNSteps: 2}, {Dir: last, SaveEveryNSteps: 4, Keep: checkpoint.Keep{KeepLastN: 2}}}
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

// TestBestAfterLastTier: a run that goes on from the last tier still has its best evaluation if a tier has its checkpoint,
// which no retention deletes; without that it says so.
func TestBestAfterLastTier(t *testing.T) {
	for _, c := range []struct {
		name    string
		carried bool // the best evaluation
	}{{"kept", true}, {"gone", false}} {
		t.Run(c.name, func(t *testing.T) {
			j := newResumable(t, false, false)
			last := filepath.Join(j.dir, "last")
			// It overfits: the first evaluation is the best.
			j.config.Training.LearningRate, j.config.Training.MaxSteps, j.config.Training.LRScheduler = 2e-2, 40, "constant"
			j.config.Checkpoint.KeepBest = true
			j.config.Checkpoint.Tiers = []checkpoint.Tier{{SaveEveryNSteps: 2}, {Dir: last, SaveEveryNSteps: 2, Keep: checkpoint.Keep{KeepLastN: 1}}}
			seen := newRecording()
			j.run(t, j.config, 2, 0, seen)
			best := bestStep(t, filepath.Join(j.config.OutputDir, "checkpoints", "step-40"))
			if best == 0 || best == 40 {
				t.Fatalf("the best evaluation is after step %d: the case shows nothing", best)
			}
			at := filepath.Join(last, fmt.Sprint("step-", best))
			// It may have been saved while another copy was in progress.
			if _, err := os.Stat(at); err != nil {
				if err := os.CopyFS(at, os.DirFS(filepath.Join(j.config.OutputDir, "checkpoints", filepath.Base(at)))); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.RemoveAll(filepath.Join(j.config.OutputDir, "checkpoints")); err != nil {
				t.Fatal(err)
			}
			if !c.carried {
				if err := os.RemoveAll(at); err != nil {
					t.Fatal(err)
				}
			}
			j.config.Resume, j.config.Training.MaxSteps = "auto", 46
			seen = newRecording()
			j.run(t, j.config, 2, 0, seen)
			if !slices.Equal(seen.begun, []int64{40}) {
				t.Fatalf("continued after %v: %q", seen.begun, seen.notes)
			}
			dropped := slices.ContainsFunc(seen.notes, func(n string) bool { return strings.Contains(n, "does not carry over") })
			if got := bestStep(t, filepath.Join(j.config.OutputDir, "checkpoints", "step-46")); (got == best) != c.carried || dropped == c.carried {
				t.Errorf("the best is of step %d, it was %d: %q", got, best, seen.notes)
			}
			if _, err := checkpoint.Open(at); c.carried && err != nil {
				t.Errorf("the best was deleted: %v", err)
			}
		})
	}
}

func bestStep(t *testing.T, dir string) int64 {
	t.Helper()
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	step, _ := train.BestStep(c.Meta().State)
	return step
}
