package train_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"trireme/internal/backend/record"
	"trireme/train"
)

// small are operations of the core that may be merged. A family that adds two biases to one sum (attention
// and MLP in parallel) has equal gradients for them, and adds BiasGrad.
var small = []string{"Copy", "Unary", "Binary", "Select", "Reduce", "Words", "GatherRows"}

// repeated lists operations and all-gathers that repeat an earlier one by value: a compiler would merge the
// two and keep the first result. It also lists all-gathers that a compiler could move much earlier.
func repeated(p *record.Program) (out []string) {
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
	offset := func(v *record.View) string {
		return fmt.Sprint(v.DType, v.Shape, v.RowStride, v.Offset, v.Axis, v.Elems)
	}
	seen := map[string]int{}
	fromData := map[string]bool{} // values that depend on an input
	early := map[string]bool{}    // units that are gathered before anything is computed on data
	for i := range p.Ops {
		op := &p.Ops[i]
		var text strings.Builder
		fmt.Fprint(&text, op.Name, op.Group)
		data := op.Name == "Upload"
		for _, a := range op.Args {
			fmt.Fprintf(&text, " %T%+v", a.Attr, a.Attr)
			for k := range a.Views {
				if v := &a.Views[k]; a.Read && v.Buffer >= 0 {
					data = data || fromData[value(v.Buffer, v.Reads)]
					fmt.Fprint(&text, " ", value(v.Buffer, v.Reads), offset(v))
				}
			}
		}
		if op.Name == "Upload" || op.Name == "Barrier" {
			fmt.Fprint(&text, " ", i) // an input, or opaque
		}
		if op.Name == "AllGather" && op.Group != "world" {
			if !data {
				early[fmt.Sprint(op.Args[2].Attr)] = true
			}
			data = true
		}
		result := short(text.String())
		if first, ok := seen[result]; ok && data && !slices.Contains(small, op.Name) {
			out = append(out, fmt.Sprintf("%s is operation %d and, with the same operands, operation %d: a compiler merges them. try: Backend.Barrier before the second", op.Name, first, i))
		}
		seen[result] = i
		for j, a := range op.Args {
			for k := range a.Views {
				if v := &a.Views[k]; a.Write && v.Buffer >= 0 {
					before := value(v.Buffer, v.Writes-1)
					after := short(fmt.Sprint(before, result, j, k, offset(v)))
					values[version{v.Buffer, v.Writes}] = after
					fromData[after] = data || fromData[before]
				}
			}
		}
	}
	if len(early) > 2 { // the first unit, and the one that is gathered ahead of it
		out = append(out, fmt.Sprintf("gathers of %d units depend on no value of the step", len(early)))
	}
	return out
}

// Recomputed and regathered values differ from the first ones for a compiler.
func TestRecordedAgain(t *testing.T) {
	oneGoroutine(t)
	for _, task := range recordedTasks {
		for _, strategy := range []string{"no_shard", "full_shard"} {
			for _, recompute := range []train.Recompute{
				{},
				{Enabled: true, EveryNLayers: 1, Part: "layer", Store: "memory"},
				{Enabled: true, EveryNLayers: 1, Part: "attention_and_mlp", Keep: "products", Store: "memory"},
				{Enabled: true, EveryNLayers: 1, Part: "layer", Segments: 2, Nested: true, Store: "memory"},
			} {
				if strategy == "no_shard" && recompute.Enabled && strings.HasPrefix(task.name, "freetransformer") {
					continue // its encoder's queries are made of whole parameters and positions, without data
				}
				c := recordedCase{recordedTask: task, world: 2, accum: 2, config: train.Default()}
				c.config.Parallel.Strategy, c.config.Recompute = strategy, recompute
				c.config.Training.MicroBatchSize = recordedRows
				c.core = strategy == "no_shard" && !recompute.Enabled
				ranks := c.open(t, true)
				for i, p := range c.record(t, ranks, func(k *recordedRank, r int) error { return c.step(k, r, 0) })[0] {
					for _, line := range repeated(p.Program) {
						t.Errorf("%s, %s, %+v, core operations %t, program %d: %s", task.name, strategy, recompute, c.core, i, line)
					}
				}
			}
		}
	}
}
