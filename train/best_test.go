package train_test

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/collective"
	"trireme/model"
	"trireme/model/llama"
	"trireme/parallel"
	"trireme/tensor"
	"trireme/train"
)

// A run that overfits ends with the parameters of an early evaluation. keep_last_n does not delete them,
// and the exported model evaluates to the same loss, bit for bit.
func TestBestModelIsKept(t *testing.T) {
	t.Run("in memory", func(t *testing.T) { bestIsKept(t, parallel.DefaultOffload()) })
	t.Run("off-loaded", func(t *testing.T) { bestIsKept(t, offloaded("full_shard")) })
}

func bestIsKept(t *testing.T, offload parallel.Offload) {
	j := newResumable(t, false, false)
	c := j.config
	c.Offload = offload
	c.Training.LearningRate, c.Training.MaxSteps, c.Training.LRScheduler = 2e-2, 40, "constant"
	c.Training.LoadBestModelAtEnd, c.Checkpoint.KeepLastN, c.Checkpoint.SaveEveryNSteps = true, 1, 3
	final := filepath.Join(j.dir, "final")
	seen := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
	j.train(t, c, seen, func(r *train.Run) error { return r.Export(context.Background(), final) })
	best, least := int64(0), 0.0
	for step, text := range seen.evals {
		loss, err := strconv.ParseFloat(strings.Fields(text)[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		if best == 0 || loss < least {
			best, least = step, loss
		}
	}
	if best == 40 {
		t.Fatal("the last evaluation is the best: the case shows nothing")
	}
	ck, err := checkpoint.Open(filepath.Join(c.OutputDir, "checkpoints", "step-"+strconv.Itoa(int(best))))
	if err != nil {
		t.Fatalf("the best checkpoint is gone: %v", err)
	}
	ck.Close()
	files, err := safetensors.OpenModel(final)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	want := state(t, filepath.Join(c.OutputDir, "checkpoints", "step-"+strconv.Itoa(int(best))))
	for _, info := range files.Tensors() {
		got := make([]byte, 4*tensor.Shape(info.Shape).Elems())
		if err := files.ReadRange(info.Name, 0, len(got)/4, got); err != nil {
			t.Fatal(err)
		}
		if string(got) != want[checkpoint.Param+" "+info.Name] {
			t.Errorf("%s is not that of step %d", info.Name, best)
		}
	}
	c.Model.Path, c.Model.Config = final, ""
	e, err := j.evaluate(t, c)
	if err != nil {
		t.Fatal(err)
	}
	if e != least {
		t.Errorf("evaluated again: loss %v, in the run %v", e, least)
	}
}

func (j *resumable) train(t *testing.T, c train.Config, into *recordingSink, f func(*train.Run) error) {
	t.Helper()
	deps, done := j.alone(t, into)
	defer done()
	r, err := train.Open(context.Background(), c, deps)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Train(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := f(r); err != nil {
		t.Fatal(err)
	}
}

func (j *resumable) evaluate(t *testing.T, c train.Config) (float64, error) {
	t.Helper()
	deps, done := j.alone(t, nil)
	defer done()
	e, err := train.Evaluate(context.Background(), c, deps)
	return e.Loss, err
}

func (j *resumable) alone(t *testing.T, into *recordingSink) (train.Deps, func()) {
	t.Helper()
	worlds, err := collective.NewLocal(1, collective.Config{})
	if err != nil {
		t.Fatal(err)
	}
	deps := train.Deps{Registry: model.Registry{llama.Family}, World: worlds[0], ProcessGroup: checkpoint.SingleProcess{}}
	if into != nil {
		deps.Sink = into.sink
	}
	return deps, func() { worlds[0].Close() }
}
