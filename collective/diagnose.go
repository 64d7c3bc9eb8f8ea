package collective

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// mismatchFailure returns the failure of two ranks that called different operations. rank is in the group.
func (g *group) mismatchFailure(mine *Header, rank int, theirs *Header) *Failure {
	return &Failure{Kind: ErrMismatch, Rank: g.w.rank, Text: fmt.Sprintf(
		"ranks called different operations in group %s: rank %d %v, rank %d %v: the %s differs",
		g.name, g.w.rank, mine, g.ranks[rank], theirs, mine.difference(theirs))}
}

// timeoutFailure returns the failure of an operation that the ranks late (in the group) have not joined,
// or, if joined, not finished.
func (g *group) timeoutFailure(h *Header, waited time.Duration, late []int, joined bool) *Failure {
	verb := "join"
	if !joined {
		verb = "finish"
	}
	slices.Sort(late)
	f := &Failure{Kind: ErrTimeout, Rank: g.w.rank}
	var b strings.Builder
	fmt.Fprintf(&b, "%v in group %s timed out after %v", h, g.name, waited.Round(time.Millisecond))
	for _, r := range late {
		f.Lost = append(f.Lost, g.ranks[r])
		fmt.Fprintf(&b, "; %s did not %s", g.w.t.Describe(g.ranks[r]), verb)
	}
	f.Text = b.String()
	return f
}

// closedFailure returns the failure of an operation with a rank (in the group) that has closed its world.
func (g *group) closedFailure(rank int) *Failure {
	r := g.ranks[rank]
	return &Failure{Kind: ErrClosed, Rank: g.w.rank, Text: fmt.Sprintf("%s has closed its world", g.w.t.Describe(r))}
}

// late returns the ranks that have not joined the operation, or the rank waited for if all have: that one
// may only wait for another.
func (o *operation) late(rank int) (late []int, joined bool) {
	g := o.g
	absent := make([]bool, len(g.ranks))
	var asked sync.WaitGroup
	for r := range g.ranks {
		if r != g.me {
			asked.Go(func() { absent[r] = !g.msg.Joined(r, o.h.Seq) })
		}
	}
	asked.Wait()
	for r, a := range absent {
		if a {
			late = append(late, r)
		}
	}
	if late == nil {
		return []int{rank}, true
	}
	return late, false
}
