package train_test

import (
	"fmt"
	"strings"
	"testing"

	"trireme/internal/backend/record"
	"trireme/train"
)

// same lists operations that compute what an earlier one has computed, by value: a compiler merges
// the two, and keeps the first result for as long as the second is needed.
func same(p *record.Program) (out []string) {
	type version struct{ buffer, number int }
	values := map[version]string{}
	names := map[string]string{} // short ones of values
	short := func(text string) string {
		if names[text] == "" {
			names[text] = fmt.Sprint("v", len(names))
		}
		return names[text]
	}
	value := func(buffer, number int) string {
		if v, ok := values[version{buffer, number}]; ok || p.Buffers[buffer].Kind == record.Temporary {
			return v
		}
		return fmt.Sprint("buffer ", buffer)
	}
	place := func(v *record.View) string {
		return fmt.Sprint(v.DType, v.Shape, v.RowStride, v.Offset, v.Axis, v.Elems)
	}
	seen := map[string]int{}
	for i := range p.Ops {
		op := &p.Ops[i]
		var text strings.Builder
		fmt.Fprint(&text, op.Name, op.Group)
		reads := false
		for _, a := range op.Args {
			fmt.Fprintf(&text, " %T%+v", a.Attr, a.Attr)
			for k := range a.Views {
				if v := &a.Views[k]; a.Read && v.Buffer >= 0 {
					reads = true
					fmt.Fprint(&text, " ", value(v.Buffer, v.Reads), place(v))
				}
			}
		}
		if !reads || op.Name == "Barrier" {
			fmt.Fprint(&text, " ", i) // an input, or opaque
		}
		result := short(text.String())
		// Copies and functions of one number may be merged: two readers of one pass make their own.
		if first, ok := seen[result]; ok && reads && op.Name != "Copy" && op.Name != "Unary" {
			out = append(out, fmt.Sprintf("operation %d is operation %d: %s", i, first, op.Name))
		}
		seen[result] = i
		for j, a := range op.Args {
			for k := range a.Views {
				if v := &a.Views[k]; a.Write && v.Buffer >= 0 {
					values[version{v.Buffer, v.Writes}] = short(fmt.Sprint(value(v.Buffer, v.Writes-1), result, j, k, place(v)))
				}
			}
		}
	}
	return out
}

// TestRecordedAgain: nothing that a step computes or gathers twice is the same value to a compiler.
func TestRecordedAgain(t *testing.T) {
	for _, task := range recordedTasks {
		for _, strategy := range []string{"no_shard", "full_shard"} {
			for _, recompute := range []train.Recompute{
				{},
				{Enabled: true, EveryNLayers: 1, Part: "layer", Store: "memory"},
				{Enabled: true, EveryNLayers: 1, Part: "attention_and_mlp", Keep: "products", Store: "memory"},
				{Enabled: true, EveryNLayers: 1, Part: "layer", Segments: 2, Nested: true, Store: "memory"},
			} {
				c := recordedCase{recordedTask: task, world: 2, accum: 2, config: train.Default()}
				c.config.Parallel.Strategy, c.config.Recompute = strategy, recompute
				c.config.Training.MicroBatchSize = recordedRows
				ranks := c.open(t, true)
				rec, err := ranks[0].rec.Record(func() error { return c.step(ranks[0], 0, 0) })
				if err != nil {
					t.Fatal(err)
				}
				for _, line := range same(rec.Program) {
					t.Errorf("%s, %s, %+v: %s", task.name, strategy, recompute, line)
				}
			}
		}
	}
}
