package train_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trireme/device"
	"trireme/train"
)

// Layers are recomputed after a checked step exceeds the threshold, with the same bits. A resumed run
// recomputes from its start. A threshold that is not reached changes nothing.
func TestMemoryPressure(t *testing.T) {
	j := newResumable(t, true, false)
	run := func(name, resume string, world int, limit int64, r train.Recompute, until int64) *recordingSink {
		c := j.config
		c.Device.MemoryLimit = device.Bytes(limit * int64(world))
		c.OutputDir, c.Resume, c.Recompute, c.Checkpoint.SaveEveryNSteps = filepath.Join(j.dir, name), resume, r, 6
		c.Parallel.Strategy = "full_shard"
		k := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}, peaks: map[int64]int64{}}
		j.run(t, c, world, until, k)
		return k
	}
	waiting := train.Recompute{Enabled: true, MemoryThreshold: 0.5, CheckEveryNSteps: 3}
	short := func(k *recordingSink) bool {
		return slices.ContainsFunc(k.notes, func(n string) bool { return strings.Contains(n, "memory_threshold exceeded") })
	}
	for _, world := range []int{1, 2} {
		name := map[int]string{1: "one", 2: "two"}[world]
		plain := run(name+"-plain", "none", world, 0, train.Recompute{}, 0)
		always := run(name+"-always", "none", world, 0, train.Recompute{Enabled: true}, 0)
		if len(plain.steps) != 11 {
			t.Fatalf("%d steps", len(plain.steps))
		}
		relieved := run(name+"-short", "none", world, plain.peaks[3], waiting, 0)
		for step := int64(1); step <= 11; step++ {
			if always.peaks[step] >= plain.peaks[step] {
				t.Errorf("step %d: %d bytes recomputed, %d kept", step, always.peaks[step], plain.peaks[step])
			}
			want := plain.peaks[step]
			if step > 4 { // looked at after step 3, agreed in step 4
				want = always.peaks[step]
			}
			if got := relieved.peaks[step]; got != want {
				t.Errorf("%d ranks, step %d: %d bytes of activations, want %d", world, step, got, want)
			}
		}
		if !short(relieved) {
			t.Errorf("no note: %q", relieved.notes)
		}
		resumed := run(name+"-resumed", filepath.Join(j.dir, name+"-short", "checkpoints", "step-6"), world, 1<<40, waiting, 0)
		if resumed.peaks[7] != always.peaks[7] {
			t.Errorf("%d ranks: resumed with %d bytes of activations, want %d", world, resumed.peaks[7], always.peaks[7])
		}
		ample := run(name+"-ample", "none", world, 1<<40, waiting, 0)
		if ample.peaks[11] != plain.peaks[11] || short(ample) {
			t.Errorf("%d ranks: %d bytes of activations under a limit that is not reached, want %d", world, ample.peaks[11], plain.peaks[11])
		}
		if !maps.Equal(plain.steps, relieved.steps) || !maps.Equal(plain.evals, relieved.evals) || !maps.Equal(plain.steps, ample.steps) {
			t.Errorf("%d ranks: %v, recomputed from step 5 on %v", world, plain.steps, relieved.steps)
		}
		for step, got := range resumed.steps {
			if got != plain.steps[step] {
				t.Errorf("%d ranks, resumed, step %d: %s, want %s", world, step, got, plain.steps[step])
			}
		}
	}
}

// Contradictory keys are refused with advice.
func TestRecomputeIsChecked(t *testing.T) {
	for want, change := range map[string]func(*train.Recompute){
		"every_n_layers is 0":                  func(c *train.Recompute) { c.EveryNLayers = 0 },
		"keep is attention":                    func(c *train.Recompute) { c.Part, c.Keep = "mlp", "attention" },
		"segments is sqrt: without nested":     func(c *train.Recompute) { c.Segments, c.Keep = train.SqrtSegments, "products" },
		"segments is 4: without nested":        func(c *train.Recompute) { c.Segments, c.EveryNLayers = 4, 2 },
		"nested is true, but segments is 0":    func(c *train.Recompute) { c.Nested = true },
		"store is disk, but part is attention": func(c *train.Recompute) { c.Store, c.Part = "disk", "attention" },
		"memory_threshold is 1.5":              func(c *train.Recompute) { c.MemoryThreshold = 1.5 },
		"check_every_n_steps is 0":             func(c *train.Recompute) { c.MemoryThreshold, c.CheckEveryNSteps = 0.5, 0 },
	} {
		c := train.Default().Recompute
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", c, err, want)
		}
	}
}
