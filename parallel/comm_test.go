package parallel_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"trireme/collective"
)

type inline struct{ *recorder }

func (inline) Inline() bool { return true }

// TestInline: with recording groups, collectives run in the computing goroutine, so operations and
// collectives are one list, equal on every rank and in every run, with the bits of the plain loop.
func TestInline(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := toy{V: 13, D: 8, F: 9, layers: 3, rows: 5, segments: 2, tied: true}
	const world, accumulation = 4, 2
	want := c.plain(t, 2, world*accumulation, -1)
	for _, strategy := range strategies {
		var first []string
		for range 2 {
			d := setup{world: world, accumulation: accumulation, replicas: 1, strategy: strategy, steps: 2, poison: -1, gather: oneAhead}
			if strategy == "hybrid_shard" {
				d.replicas = 2
			}
			js := d.journals()
			notes := d.group
			d.group = func(rank int, axis string, g collective.Group) collective.Group {
				return inline{notes(rank, axis, g).(*recorder)}
			}
			d.in = func(rank, unit int, back bool) { js[rank].note(fmt.Sprintf("compute %d %t", unit, back)) }
			got, errs := c.train(t, d)
			if err := errors.Join(errs...); err != nil {
				t.Fatalf("%v: %v", d, err)
			}
			if diff := differ(got, want); diff != "" {
				t.Errorf("%v: %s", d, diff)
			}
			if first == nil {
				first = js[0].begun
			}
			for rank, j := range js {
				if !slices.Equal(j.begun, first) {
					t.Errorf("%v: rank %d ran %v, rank 0 first ran %v", d, rank, j.begun, first)
				}
			}
		}
	}
}
