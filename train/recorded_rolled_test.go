package train_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trireme/internal/backend/record"
	"trireme/train"
)

// rolledPrograms are the programs of a step of a task with more layers.
func rolledPrograms(t *testing.T, task recordedTask, deeper int, strategy string, recompute train.Recompute) []*record.Recording {
	t.Helper()
	c := recordedCase{recordedTask: task.deeper(deeper), world: 4, accum: 2, config: train.Default()}
	if strategy == "no_shard" {
		c.world = 1
	}
	c.config.Parallel.Strategy, c.config.Recompute = strategy, recompute
	c.config.Training.MicroBatchSize = recordedRows
	return c.record(t, c.open(t, true), func(k *recordedRank, r int) error { return c.step(k, r, 0) })[0]
}

// compiled is the number of operations that a compiler compiles.
func compiled(r *record.Rolled) (n int) {
	for _, x := range r.Nodes {
		if n++; x.Loop != nil {
			n += len(x.Loop.Body) - 1
		}
	}
	return n
}

// Rolled programs of deeper models have an equal number of operations. They need no more memory than the
// programs, but for up to one temporary of each stack: a stack is freed at once, after the last of them. FULL_MATRIX=1
// runs each task with all strategies and kinds of recomputation; else each pair of these occurs.
func TestRolledLayers(t *testing.T) {
	oneGoroutine(t)
	recomputes := map[string]train.Recompute{
		"":                   {},
		", recomputed":       {Enabled: true, EveryNLayers: 1, Part: "layer", Store: "memory"},
		", products kept":    {Enabled: true, EveryNLayers: 1, Part: "attention_and_mlp", Keep: "products", Store: "memory"},
		", half recomputed":  {Enabled: true, EveryNLayers: 2, Part: "layer", Store: "memory"},
		", in two segments":  {Enabled: true, EveryNLayers: 1, Part: "layer", Segments: 2, Store: "memory"},
		", nested recompute": {Enabled: true, EveryNLayers: 1, Part: "layer", Segments: 2, Nested: true, Store: "memory"},
	}
	for i, task := range recordedTasks {
		for j, strategy := range []string{"no_shard", "full_shard", "shard_grad_op"} {
			for k, name := range slices.Sorted(maps.Keys(recomputes)) {
				recompute := recomputes[name]
				if !crossAll() && (i+k)%3 != j {
					continue
				}
				t.Run(task.name+"/"+strategy+name, func(t *testing.T) {
					few := 1 // 4 layers
					if strings.HasPrefix(task.name, "freetransformer") || recompute.EveryNLayers > 1 || recompute.Segments > 1 {
						few = 8 // so that each part has some: both halves of the model, or every second layer
					}
					shallow, deep := rolledPrograms(t, task, few, strategy, recompute), rolledPrograms(t, task, few+8, strategy, recompute)
					for i, p := range shallow {
						few, many := p.Roll(), deep[i].Roll()
						if compiled(few) != compiled(many) {
							t.Errorf("program %d has %d operations, and %d with 8 layers more", i, compiled(few), compiled(many))
						}
						one := 0
						for k, n := range many.Stacked {
							if n > 0 {
								one += many.Buffers[k].Size / n
							}
						}
						if got, want := many.Peak(), deep[i].Peak(); got > want+one {
							t.Errorf("program %d needs %d bytes, and %d if not rolled", i, got, want)
						}
					}
				})
			}
		}
	}
}

// outline lists a rolled program's operations, with those of a loop in one line.
func outline(r *record.Rolled) string {
	var out, line strings.Builder
	var names []string
	flush := func() {
		for i := 0; i < len(names); {
			n := 1
			for i+n < len(names) && names[i+n] == names[i] {
				n++
			}
			if i > 0 {
				line.WriteByte(' ')
			}
			if line.WriteString(names[i]); n > 1 {
				fmt.Fprintf(&line, "*%d", n)
			}
			i += n
		}
		if line.Len() > 0 {
			fmt.Fprintln(&out, line.String())
		}
		names = nil
		line.Reset()
	}
	for _, n := range r.Nodes {
		if n.Loop == nil {
			names = append(names, n.Op.Name)
			continue
		}
		flush()
		kinds := map[record.LocalKind]int{}
		for _, x := range n.Loop.Locals {
			kinds[x.Kind]++
		}
		fmt.Fprintf(&line, "loop %d,", n.Loop.Count)
		for _, k := range slices.Sorted(maps.Keys(kinds)) {
			fmt.Fprintf(&line, " %d %s", kinds[k], k)
		}
		line.WriteString(": ")
		for _, op := range n.Loop.Body {
			names = append(names, op.Name)
		}
		flush()
	}
	flush()
	return out.String()
}

// The outlines of rolled programs stay as they are in testdata/rolled. UPDATE=1 writes them.
func TestRolledOutline(t *testing.T) {
	for i, task := range recordedTasks {
		strategy := []string{"full_shard", "no_shard", "shard_grad_op"}[i%3]
		recompute := train.Recompute{Enabled: i%2 == 0, EveryNLayers: 1, Part: "layer", Store: "memory"}
		programs := rolledPrograms(t, task, 8, strategy, recompute)
		got := outline(programs[len(programs)-1].Roll())
		file := filepath.Join("testdata", "rolled", strings.ReplaceAll(task.name, " ", "_")+".txt")
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := record.Diff(string(want), got); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
}
