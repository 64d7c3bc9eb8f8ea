package train_test

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/optim"
	"trireme/tensor"
	"trireme/train"
)

// The exported average is that of the checkpoint whose weights the run ends with; before the first step
// it is the weights.
func TestAverageIsExported(t *testing.T) {
	j := newResumable(t, false, false)
	c := j.config
	c.Training.LearningRate, c.Training.MaxSteps, c.Training.LRScheduler = 2e-2, 40, "constant"
	c.Training.LoadBestModelAtEnd, c.Checkpoint.KeepLastN, c.Checkpoint.SaveEveryNSteps = true, 1, 3
	c.Training.EMA.Decay, c.Export.Weights = 0.9, train.ExportEMA
	export := func(dir string) func(*train.Run) error {
		return func(r *train.Run) error { return r.Export(context.Background(), filepath.Join(j.dir, dir, "final")) }
	}
	deps, done := j.alone(t, nil)
	r, err := train.Open(context.Background(), c, deps)
	if err != nil {
		t.Fatal(err)
	}
	err = export("before")(r)
	r.Close()
	done()
	if err != nil {
		t.Fatal(err)
	}
	if len(tensorsOf(t, filepath.Join(j.dir, "before", "final"))) == 0 {
		t.Error("nothing is exported before the first step")
	}
	for name, bytes := range tensorsOf(t, filepath.Join(j.dir, "before", "final")) {
		if string(make([]byte, len(bytes))) == bytes {
			t.Errorf("%s has no weights before the first step", name)
		}
	}

	c.Export.Weights = train.ExportBoth
	seen := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
	j.train(t, c, seen, export("after"))
	final, found := tensorsOf(t, filepath.Join(j.dir, "after", "final")), false
	for step := range seen.evals {
		dir := filepath.Join(c.OutputDir, "checkpoints", "step-"+strconv.Itoa(int(step)))
		ck, err := checkpoint.Open(dir)
		if err != nil {
			continue // neither the best nor the last
		}
		ck.Close()
		kept := state(t, dir)
		for name, bytes := range tensorsOf(t, filepath.Join(j.dir, "after", "ema_model")) {
			if final[name] != kept[checkpoint.Param+" "+name] {
				break // the last, and not the best
			}
			if bytes != kept[optim.AverageSlot+" "+name] || bytes == final[name] {
				t.Errorf("the average of %s is not that of step %d", name, step)
			}
			found = true
		}
	}
	if !found {
		t.Error("no checkpoint has the weights that the run ended with")
	}
}

func tensorsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := safetensors.OpenModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	out := map[string]string{}
	for _, info := range files.Tensors() {
		b := make([]byte, 4*tensor.Shape(info.Shape).Elems())
		if err := files.ReadRange(info.Name, 0, len(b)/4, b); err != nil {
			t.Fatal(err)
		}
		out[info.Name] = string(b)
	}
	return out
}
