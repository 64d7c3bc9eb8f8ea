package cli

import (
	"context"
	"strings"
	"testing"

	"trireme/planner"
	"trireme/recipes"
	"trireme/tensor"
	"trireme/train"
)

// One line if no rank exceeds the plan, a table if one exceeds it by a byte.
func TestPrintMemory(t *testing.T) {
	var plan planner.Plan
	plan.Memory.PeakTotal = 100 << 10
	plan.Memory.Peak[tensor.Params], plan.Memory.AtPeak[tensor.Params] = 60<<10, 60<<10
	plan.Memory.Peak[tensor.Activations], plan.Memory.AtPeak[tensor.Activations] = 50<<10, 40<<10
	rank := func(n int) train.RankMemory {
		r := train.RankMemory{Rank: n, Peak: map[string]int64{}, Total: 100 << 10, Resident: 3 << 20}
		for c := range tensor.NumCategories {
			r.Peak[c.String()] = plan.Memory.Peak[c]
		}
		return r
	}
	for _, c := range []struct {
		ranks []train.RankMemory
		want  string
	}{
		{[]train.RankMemory{rank(0)}, "memory: measured as planned: 100.0KiB peak (parameters 60.0KiB, activations 40.0KiB); 3.0MiB resident\n"},
		{[]train.RankMemory{rank(0), rank(1)}, "memory: measured as planned on both ranks: 100.0KiB peak (parameters 60.0KiB, activations 40.0KiB); 3.0MiB resident\n"},
		{[]train.RankMemory{rank(0), rank(1), rank(2)}, "memory: measured as planned on all 3 ranks: 100.0KiB peak (parameters 60.0KiB, activations 40.0KiB); 3.0MiB resident\n"},
	} {
		var b strings.Builder
		if err := printMemory(&b, plan, c.ranks); err != nil || b.String() != c.want {
			t.Errorf("%v: %q, not %q", err, b.String(), c.want)
		}
	}
	less := rank(1)
	less.Peak[tensor.Activations.String()], less.Total = 40<<10, 90<<10
	var line strings.Builder
	if err := printMemory(&line, plan, []train.RankMemory{less, less}); err != nil || line.String() != "memory: 90.0KiB peak on both ranks, 100.0KiB planned for full rows (parameters 60.0KiB, activations 40.0KiB); 3.0MiB resident\n" {
		t.Errorf("%v: %q", err, line.String())
	}
	odd := rank(1)
	odd.Peak[tensor.Activations.String()]++
	var b strings.Builder
	if err := printMemory(&b, plan, []train.RankMemory{rank(0), odd}); err != nil || !strings.HasPrefix(b.String(), "\nmemory, peak by category:\n") ||
		!strings.Contains(b.String(), "planned    rank 0    rank 1") || strings.Count(b.String(), "\n") != 5+int(tensor.NumCategories) {
		t.Errorf("%v: %s", err, b.String())
	}
}

// A signal during or after the export is no failure of a finished run, which then prints no sample.
func TestNoSampleAfterStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var b strings.Builder
	j := &job{recipe: recipes.GoSource()}
	if err := j.printSample(ctx, &b, "no such model"); err != nil || b.Len() > 0 {
		t.Errorf("%v, %q", err, &b)
	}
}
