package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trireme/internal/conf"
	"trireme/parallel"
	"trireme/train"
)

// experiment is a proof of all kinds on 1, 2 and 4 ranks with every strategy.
func experiment(edit func(*train.Config)) Experiment {
	c := train.Default()
	c.Model.Config, c.Data.Path = "config.json", "train.txt"
	c.Training.MicroBatchSize, c.Training.GlobalBatchSize = 4, 16
	if edit != nil {
		edit(&c)
	}
	return Experiment{Config: c, MicroBatch: c.Training.MicroBatchSize, Worlds: []int{1, 2, 4}, Strategies: parallel.StrategyNames(), Kinds: Kinds(), Steps: 5, Layers: 4, Threads: 2}
}

// TestList compares the trials of the default configuration with testdata/trials.txt. UPDATE=1 rewrites it.
func TestList(t *testing.T) {
	var b strings.Builder
	for _, trial := range experiment(nil).Trials() {
		fmt.Fprintln(&b, trial)
	}
	golden(t, "trials.txt", b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is\n%s\nbut the code gives\n%s", path, want, got)
	}
}

// TestTrialsAreRuns: for many configurations and numbers of ranks, each start of each trial is a valid configuration
// for its number of ranks, trials differ from each other and from the reference, and resumes stop in ascending order.
func TestTrialsAreRuns(t *testing.T) {
	edits := map[string]func(*train.Config){
		"default":   nil,
		"ddp":       func(c *train.Config) { c.Parallel.Strategy = "ddp" },
		"hybrid":    func(c *train.Config) { c.Parallel.Strategy = "hybrid_shard"; c.Parallel.Mesh.Replicate = 2 },
		"groups":    func(c *train.Config) { c.Parallel.ReshardAfterForward = 2 },
		"tcp":       func(c *train.Config) { c.Parallel.Backend = "tcp" },
		"rank sums": func(c *train.Config) { c.Parallel.WorldInvariant = false },
		"bfloat16":  func(c *train.Config) { c.Precision.ParamDType = "bfloat16" },
		"tokens":    func(c *train.Config) { c.Training.MicroBatchSize, c.Training.MicroBatchTokens = 1, 512 },
		"cuda":      func(c *train.Config) { c.Device.Name = "cuda" },
		"offloaded": func(c *train.Config) {
			c.Offload.Params.Device, c.Offload.Optimizer.Device = parallel.OffloadNVMe, parallel.OffloadNVMe
		},
		"recomputed": func(c *train.Config) {
			c.Recompute.Enabled, c.Recompute.Segments, c.Recompute.Nested, c.Recompute.MemoryThreshold = true, 2, true, 0.5
		},
	}
	for name, edit := range edits {
		for _, worlds := range [][]int{{1}, {2, 4}, {1, 3, 6}} {
			for _, layers := range []int{1, 4} {
				e := experiment(edit)
				e.Worlds, e.Layers = worlds, layers
				trials := e.Trials()
				seen := map[string]bool{}
				for _, trial := range trials {
					where := fmt.Sprintf("%s on %v: %v", name, worlds, trial)
					if seen[trial.Differs] {
						t.Errorf("%s is compared twice", where)
					}
					seen[trial.Differs] = true
					last := 0
					for _, p := range trial.Parts {
						if !slices.Contains(worlds, p.World) || p.Until <= last {
							t.Errorf("%s: a start on %d ranks until step %d after step %d", where, p.World, p.Until, last)
						}
						last = p.Until
						if err := runs(p); err != nil {
							t.Errorf("%s: %v", where, err)
						}
					}
					if last != e.Steps {
						t.Errorf("%s ends at step %d", where, last)
					}
				}
				if len(trials) < 8 {
					t.Errorf("%s on %v: only %d trials", name, worlds, len(trials))
				}
			}
		}
	}
}

// runs checks that the printed configuration of a start loads, and fits its number of ranks.
func runs(p Part) error {
	var text strings.Builder
	if err := conf.Print(&text, p.Config, nil); err != nil {
		return err
	}
	loaded, err := conf.Load(train.Default(), conf.Text("trial", text.String()))
	if err != nil {
		return err
	}
	c := loaded.Value
	if changes := conf.Diff(p.Config, c); len(changes) > 0 {
		return fmt.Errorf("printed and loaded, it differs in %v", changes)
	}
	s, _, err := c.Parallel.Resolve(p.World, p.World)
	if err != nil {
		return err
	}
	if _, err := c.Training.Accumulation(p.World); err != nil {
		return err
	}
	return c.Offload.CheckStrategy(s)
}

// TestWhy: only runs on other ranks or strategies lose the promise of bits, and only where sums depend on ranks.
func TestWhy(t *testing.T) {
	for _, trial := range experiment(nil).Trials() {
		if (trial.Why != "") != (trial.Kind == MicroBatches) || (trial.Tolerance > 0) != (trial.Kind == MicroBatches) {
			t.Errorf("%v: why %q, tolerance %v", trial, trial.Why, trial.Tolerance)
		}
	}
	e := experiment(func(c *train.Config) { c.Parallel.WorldInvariant = false })
	lost := 0
	for _, trial := range e.Trials() {
		p := trial.Parts[len(trial.Parts)-1]
		if strings.Contains(trial.Why, "world_invariant") {
			lost++
			if trial.Kind != Ranks && trial.Kind != Resume {
				t.Errorf("%v: %s", trial, trial.Why)
			}
		} else if trial.Kind == Ranks && p.World > 1 && slices.Contains([]string{"no_shard", "zero_1", "hybrid_shard"}, p.Config.Parallel.Strategy) {
			t.Errorf("%v has the promise of bits", trial)
		}
	}
	if lost < 6 {
		t.Errorf("only %d trials lose the promise", lost)
	}
}

// TestDivide: each rank has a micro-batch, none is larger, and rows are added only if there are too few.
func TestDivide(t *testing.T) {
	for micro := 1; micro <= 6; micro++ {
		for micros := 1; micros <= 5; micros++ {
			for largest := 1; largest <= 8; largest++ {
				was := train.Default().Training
				was.MicroBatchSize, was.GlobalBatchSize = micro, micro*micros
				got := Divide(was, largest)
				rows, size := got.GlobalBatchSize, got.MicroBatchSize
				if rows%size != 0 || rows/size < largest || size > micro || rows != max(largest, micro*micros) || largest <= micros && size != micro {
					t.Errorf("%d x %d rows on %d ranks: %d rows in micro-batches of %d", micros, micro, largest, rows, size)
				}
			}
		}
	}
	e := experiment(func(c *train.Config) { c.Training.MicroBatchSize, c.Training.GlobalBatchSize = 8, 16 })
	e.Config.Training = Divide(e.Config.Training, 4)
	trials := e.Trials()
	if last := trials[len(trials)-1]; last.Kind != MicroBatches || last.Differs != "training.micro_batch_size: 8" {
		t.Errorf("the configuration's micro-batches are not compared: %v", last)
	}
}
