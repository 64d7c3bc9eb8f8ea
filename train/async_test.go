package train_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"trireme/optim"
	"trireme/parallel"
	"trireme/train"
)

var runID = regexp.MustCompile(`"run":"[^"]*"`)

// contents returns the files of a run's checkpoints by path, without its random identity and the digests of that.
func contents(t *testing.T, c train.Config) map[string]string {
	t.Helper()
	root := filepath.Join(c.OutputDir, "checkpoints")
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "COMMIT" {
			return err
		}
		b, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, root)] = string(runID.ReplaceAll(b, nil))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAsyncIsEqual: checkpoints that are written beside later steps have the bytes of those that are written between
// steps, and the run has the same values.
func TestAsyncIsEqual(t *testing.T) {
	plain := func(*train.Config) {}
	for _, v := range []struct {
		name   string
		poison bool
		change func(*train.Config)
	}{
		{"memory for all", false, plain},
		{"little memory", false, func(c *train.Config) { c.Checkpoint.AsyncMemory = 1000 }},
		{"one file, skipped steps", true, func(c *train.Config) { c.Checkpoint.StateDictType = "full" }},
		{"muon in bfloat16", false, func(c *train.Config) {
			c.Training.Optimizer = optim.Config{"name": "muon"}
			c.Precision = train.Precision{ParamDType: "bfloat16", ReduceDType: "float32", BufferDType: "float32"}
		}},
		{"an average of the weights", false, func(c *train.Config) { c.Training.EMA = optim.EMA{Decay: 0.9} }},
		{"offloaded", false, func(c *train.Config) {
			c.Offload, c.Checkpoint.AsyncMemory = offloaded(c.Parallel.Strategy), 5000
		}},
	} {
		for i, strategy := range parallel.StrategyNames() {
			for world := 1; world <= 4; world++ {
				if v.name != "memory for all" && (i+world)%3 > 0 || testing.Short() && (i+world)%6 > 0 { // a third or a sixth of them
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, %d ranks", v.name, strategy, world), func(t *testing.T) {
					j := newResumable(t, false, v.poison)
					j.config.Parallel.Strategy = strategy
					j.config.Training.MaxSteps, j.config.Checkpoint.SaveEveryNSteps = 7, 2
					v.change(&j.config)
					run := func(async bool) (map[string]string, *recordingSink) {
						c := j.config
						c.OutputDir, c.Checkpoint.Async = filepath.Join(j.dir, fmt.Sprint("async ", async)), async
						k := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
						j.run(t, c, world, 0, k)
						return contents(t, c), k
					}
					want, before := run(false)
					got, after := run(true)
					if len(got) != len(want) || len(want) < 2*4 {
						t.Errorf("%d files, in the background %d", len(want), len(got))
					}
					for name := range want {
						if want[name] != got[name] {
							t.Errorf("%s differs", name)
						}
					}
					for step := range before.steps {
						if before.steps[step] != after.steps[step] || before.evals[step] != after.evals[step] {
							t.Errorf("step %d differs", step)
						}
					}
					n := 0
					for _, note := range after.notes {
						if strings.Contains(note, "in the background") {
							n++
						}
					}
					if n != 3 { // the last one is waited for
						t.Errorf("%d were written in the background: %q", n, after.notes)
					}
				})
			}
		}
	}
}

// TestAsyncOneAtATime: a save that is due while another is written waits for it and says so.
func TestAsyncOneAtATime(t *testing.T) {
	j := newResumable(t, false, false)
	j.config.Checkpoint.Async, j.config.Checkpoint.SaveEveryNSteps, j.config.Training.MaxSteps = true, 1, 6
	k := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
	j.run(t, j.config, 2, 0, k)
	if got := saved(t, j.config); !slices.Equal(got, []int{6, 5, 4, 3, 2, 1}) {
		t.Errorf("the checkpoints are of steps %v", got)
	}
	// A save needs two votes, so the next step's save finds it in progress.
	if !slices.ContainsFunc(k.notes, func(n string) bool {
		return strings.HasPrefix(n, "the checkpoint after step 2 waited ") && strings.HasSuffix(n, "for that of step 1, which was still being written")
	}) {
		t.Errorf("notes are %q", k.notes)
	}
}

// TestAsyncIsLeft: a run that ends early leaves the checkpoint before, and the next save removes the rest.
func TestAsyncIsLeft(t *testing.T) {
	j := newResumable(t, false, false)
	j.config.Checkpoint.Async, j.config.Checkpoint.SaveEveryNSteps = true, 3
	k := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
	j.run(t, j.config, 2, 6, k) // closed just after the save of step 6 began
	if got := saved(t, j.config); !slices.Equal(got, []int{3}) {
		t.Fatalf("the checkpoints are of steps %v", got)
	}
	j.config.Resume, j.config.Parallel.Strategy = "auto", "no_shard"
	j.run(t, j.config, 1, 0, k)
	if got := saved(t, j.config); !slices.Equal(got, []int{11, 9, 6, 3}) || !slices.Equal(k.begun, []int64{0, 3}) {
		t.Errorf("the checkpoints are of steps %v, runs began after %v", got, k.begun)
	}
	entries, err := os.ReadDir(filepath.Join(j.config.OutputDir, "checkpoints"))
	if err != nil || len(entries) != 4 {
		t.Errorf("left are %v, %v", entries, err)
	}
}
