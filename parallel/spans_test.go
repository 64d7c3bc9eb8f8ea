package parallel_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"trireme/collective"
	"trireme/trace"
)

// TestSpans: with the communication stream and with inline collectives, in memory and offloaded, spans of the computing
// goroutine are nested, each unit has its own, waits cover inline collectives, and recording changes no bit.
func TestSpans(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := toy{V: 13, D: 8, F: 9, layers: 3, rows: 5, segments: 2, tied: true}
	const world, accumulation, steps = 2, 2, 2
	want := c.plain(t, steps, world*accumulation, -1)
	for _, inlined := range []bool{false, true} {
		for _, offloaded := range []bool{false, true} {
			d := setup{world: world, accumulation: accumulation, replicas: 1, strategy: "fsdp", steps: steps, poison: -1, gather: oneAhead, spans: []*trace.Recorder{trace.New(0), trace.New(0)}}
			if inlined {
				d.journals()
				notes := d.group
				d.group = func(rank int, axis string, g collective.Group) collective.Group {
					return inline{notes(rank, axis, g).(*recorder)}
				}
			}
			if offloaded {
				d.offload = nvme(t.TempDir())
			}
			name := fmt.Sprintf("inline %t, offloaded %t", inlined, offloaded)
			got, errs := c.train(t, d)
			if err := errors.Join(errs...); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := differ(got, want); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			for rank, r := range d.spans {
				spans, _, lost := r.Since(trace.Cursor{})
				if lost > 0 {
					t.Fatalf("%d spans lost", lost)
				}
				checkSpans(t, fmt.Sprintf("%s, rank %d", name, rank), spans, inlined, offloaded, steps*accumulation)
			}
		}
	}
}

func checkSpans(t *testing.T, name string, spans []trace.Span, inlined, offloaded bool, micros int) {
	t.Helper()
	var compute, comm []trace.Span
	kinds, units := map[trace.Kind]int{}, map[string]int{}
	for _, s := range spans {
		kinds[s.Kind]++
		if s.Kind == trace.Backward {
			units[s.Unit]++
		}
		switch s.Stream {
		case trace.Compute:
			compute = append(compute, s)
		case trace.Comm:
			comm = append(comm, s)
		}
	}
	for _, unit := range []string{"embed", "layer1", "layer2", "layer3"} {
		if units[unit] != micros {
			t.Errorf("%s: %d backward spans of %s, want %d", name, units[unit], unit, micros)
		}
	}
	if kinds[trace.Recompute] == 0 || kinds[trace.Optimizer] == 0 || kinds[trace.AllGather] == 0 || kinds[trace.ReduceScatter] == 0 || kinds[trace.AllReduce] == 0 || offloaded != (kinds[trace.Offload] > 0) {
		t.Errorf("%s: %v", name, kinds)
	}
	slices.SortFunc(compute, func(a, b trace.Span) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End)) })
	var open []trace.Span
	for _, s := range compute {
		for len(open) > 0 && open[len(open)-1].End <= s.Start {
			open = open[:len(open)-1]
		}
		if n := len(open); n > 0 && s.End > open[n-1].End {
			t.Errorf("%s: %v %s overlaps with %v %s", name, s.Kind, s.Unit, open[n-1].Kind, open[n-1].Unit)
		}
		open = append(open, s)
	}
	if !inlined {
		return
	}
	for _, s := range comm {
		if s.Ready < s.Start || s.Ready > s.End {
			t.Errorf("%s: %+v", name, s)
		}
		if s.Unit != "step" && !slices.ContainsFunc(compute, func(w trace.Span) bool {
			return w.Kind == trace.Wait && w.Start <= s.Start && s.End <= w.End
		}) {
			t.Errorf("%s: computation does not wait in %v %s", name, s.Kind, s.Unit)
		}
	}
}
