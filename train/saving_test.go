package train_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"trireme/checkpoint"
	"trireme/collective"
	"trireme/collective/collectivetest"
	"trireme/model"
	"trireme/model/llama"
	"trireme/train"
)

// saved returns the steps of a run's checkpoints, newest first.
func saved(t *testing.T, c train.Config) (steps []int) {
	t.Helper()
	found, err := checkpoint.List(filepath.Join(c.OutputDir, "checkpoints"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Err != nil {
			t.Fatal(f.Err)
		}
		steps = append(steps, f.Step)
	}
	return steps
}

// TestSaveByTime: the clock of rank 0 decides for all ranks.
func TestSaveByTime(t *testing.T) {
	for _, c := range []struct {
		name    string
		minutes float64
		want    []int
	}{{"each step", 1e-9, []int{5, 4, 3, 2, 1}}, {"never", 60, []int{5}}} {
		j := newResumable(t, false, false)
		j.config.Checkpoint.SaveEveryNMinutes, j.config.Training.MaxSteps = c.minutes, 5
		j.run(t, j.config, 2, 0, &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}})
		if got := saved(t, j.config); !slices.Equal(got, c.want) {
			t.Errorf("%s: saved after steps %v, want %v", c.name, got, c.want)
		}
	}
}

func TestKeepBest(t *testing.T) {
	j := newResumable(t, false, false)
	c := j.config
	c.Training.LearningRate, c.Training.MaxSteps, c.Training.LRScheduler = 2e-2, 40, "constant"
	c.Checkpoint.KeepBest, c.Checkpoint.KeepLastN = true, 1
	seen := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
	j.run(t, c, 1, 0, seen)
	best, least := 0, 0.0
	for step, text := range seen.evals {
		loss, err := strconv.ParseFloat(strings.Fields(text)[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		if best == 0 || loss < least {
			best, least = int(step), loss
		}
	}
	if got := saved(t, c); best == 40 || !slices.Equal(got, []int{40, best}) {
		t.Errorf("the checkpoints are of steps %v, the best evaluation of step %d", got, best)
	}
}

// TestTimeLimit: a run that would not end in time stops with a checkpoint and continues later.
func TestTimeLimit(t *testing.T) {
	for _, c := range []struct {
		name     string
		deadline time.Duration // from now; 0: unknown
		change   func(*train.Config)
		stops    bool
	}{
		{"no limit", 0, func(*train.Config) {}, false},
		{"an hour", time.Hour, func(c *train.Config) { c.Training.MaxMinutes = 60 }, false},
		{"the job's end", 50 * time.Second, func(*train.Config) {}, true},
		{"no margin", 50 * time.Second, func(c *train.Config) { c.Training.StopMarginSeconds = 0 }, false},
		{"the run's end", time.Hour, func(c *train.Config) { c.Training.MaxMinutes = 0.5 }, true},
	} {
		j := newResumable(t, false, false)
		j.config.Training.MaxSteps = 4
		c.change(&j.config)
		seen := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
		stopped := limited(t, j, c.deadline, seen)
		said := slices.ContainsFunc(seen.notes, func(n string) bool { return strings.Contains(n, "the time limit is in") })
		if stopped != c.stops || said != c.stops {
			t.Errorf("%s: stopped %v, said so %v: %q", c.name, stopped, said, seen.notes)
		}
		want := []int{4}
		if c.stops {
			want = []int{1}
		}
		if got := saved(t, j.config); !slices.Equal(got, want) {
			t.Errorf("%s: saved after steps %v, want %v", c.name, got, want)
		}
		if c.stops {
			j.config.Resume, j.config.Training.MaxMinutes = "auto", 0
			if limited(t, j, 0, seen) || !slices.Equal(seen.begun, []int64{0, 1}) || len(seen.steps) != 4 {
				t.Errorf("%s: continued after %v: %v", c.name, seen.begun, seen.steps)
			}
		}
	}
}

// limited trains two ranks until a deadline from now and reports whether they stopped before the end.
func limited(t *testing.T, j *resumable, deadline time.Duration, into *recordingSink) (stopped bool) {
	t.Helper()
	meet := collectivetest.NewBootstrap(2)
	collectivetest.Ranks(t, 2, func(w collective.World) error {
		deps := train.Deps{Registry: model.Registry{llama.Family}, World: w, ProcessGroup: meet.Rank(w.Rank())}
		if deadline > 0 {
			deps.Deadline = time.Now().Add(deadline)
		}
		if w.Rank() == 0 {
			deps.Sink = into.sink
		}
		r, err := train.Open(context.Background(), j.config, deps)
		if err != nil {
			return err
		}
		err = r.Train(context.Background())
		if w.Rank() == 0 {
			stopped = errors.Is(err, train.ErrStopped)
		}
		if errors.Is(err, train.ErrStopped) {
			err = nil
		}
		return errors.Join(err, r.Close())
	})
	return stopped
}
