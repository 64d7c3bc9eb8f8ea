package collective

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// mismatch is the failure of two ranks that mean different operations. rank is of the group.
func (g *group) mismatch(mine *Header, rank int, theirs *Header) *Failure {
	return &Failure{Kind: ErrMismatch, Rank: g.w.rank, Text: fmt.Sprintf(
		"ranks issued different operations in group %s: rank %d %v, rank %d %v: the %s differs",
		g.name, g.w.rank, mine, g.ranks[rank], theirs, mine.difference(theirs))}
}

// timeout is the failure of an operation that some ranks (of the group) have not joined, or
// have not finished.
func (g *group) timeout(h *Header, waited time.Duration, late []int, joined bool) *Failure {
	verb := "arrive"
	if !joined {
		verb = "finish"
	}
	slices.Sort(late)
	f := &Failure{Kind: ErrTimeout, Rank: g.w.rank}
	var b strings.Builder
	fmt.Fprintf(&b, "%v of group %s timed out after %v", h, g.name, waited.Round(time.Millisecond))
	for _, r := range late {
		f.Lost = append(f.Lost, g.ranks[r])
		fmt.Fprintf(&b, "; rank %d did not %s: %s", g.ranks[r], verb, g.w.t.LastOp(g.ranks[r]))
	}
	f.Text = b.String()
	return f
}

// left is the failure of an operation that needs a rank (of the group) which has ended.
func (g *group) left(rank int) *Failure {
	r := g.ranks[rank]
	return &Failure{Kind: ErrClosed, Rank: g.w.rank, Text: fmt.Sprintf("rank %d has closed its world; its last operation: %s", r, g.w.t.LastOp(r))}
}
