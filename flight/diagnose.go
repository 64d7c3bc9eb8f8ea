package flight

import (
	"fmt"
	"slices"
	"time"
)

// StoreGather is the kind of an operation of the store of package rendezvous, in which ranks wait for each other
// without a limit: one of them may tokenize or save alone.
const StoreGather = "store_gather"

// Rank is the state of a rank, as another process knows it.
type Rank struct {
	*State        // nil: unknown
	Gone   string // why the rank no longer runs ("is stopped", "has ended"); "": it runs
}

// Verdict is the kind of a Report.
type Verdict uint8

// The verdicts.
const (
	Progress Verdict = iota // nothing is wrong, or nothing yet
	Late                    // all wait for a rank, for a while
	Hung                    // a rank did not reach a collective in time
	Deadlock                // ranks wait for each other
	Stuck                   // all ranks reached a collective that does not end
	Lost                    // ranks wait for one that is stopped or has ended
)

var verdictNames = [...]string{"progress", "late", "hung", "deadlock", "stuck", "lost"}

func (v Verdict) String() string { return verdictNames[v] }

// Ends reports whether the job cannot continue.
func (v Verdict) Ends() bool { return v >= Hung }

// Report is the result of Diagnose.
type Report struct {
	Verdict Verdict
	Rank    int    // at fault; -1: none
	Ranks   []int  // all that are late
	Op      string // the collective
	InStore bool   // Op is a wait in the store, which has no limit
	Waiting int    // number of ranks that wait
	Waited  time.Duration
	Text    string // one paragraph; "" for Progress
}

// deadlockAfter is the time for which ranks wait for each other before it counts: states are not all of the
// same moment.
const deadlockAfter = 1500 * time.Millisecond

// patience is the number of limits for which a rank that uses the processor may compute or compile.
const patience = 10

// wait is a rank that waits in an operation.
type wait struct {
	rank   int
	op     *OpState
	group  *GroupState
	late   []int // ranks that have not reached it
	waited time.Duration
}

// Diagnose says from the states of all ranks, by rank, what they wait for. limit is the time that a rank may
// take to reach a collective without progress. It is a pure function.
func Diagnose(ranks []Rank, limit time.Duration) Report {
	waits := map[int]*wait{}
	for r := range ranks {
		if ranks[r].State == nil || ranks[r].Gone != "" || ranks[r].Ended {
			continue
		}
		if o := ranks[r].blocked(); o != nil {
			waits[r] = newWait(ranks, r, o)
		}
	}
	if p := cycle(ranks, waits); p != nil {
		return deadlock(ranks, waits, p)
	}
	var worst *wait // with the latest rank
	var open *wait  // that all ranks have reached
	for r := range ranks {
		w := waits[r]
		switch {
		case w == nil:
		case len(w.late) == 0:
			if w.op.Kind != StoreGather && (open == nil || w.waited > open.waited) {
				open = w
			}
		case len(w.roots(waits)) == 0: // they wait for others
		case worst == nil || better(w, worst):
			worst = w
		}
	}
	switch {
	case worst != nil:
		return late(ranks, waits, worst, limit)
	case open != nil && open.waited >= limit:
		return stuck(ranks, waits, open, limit)
	}
	return Report{Rank: -1}
}

// better prefers collectives, which have a limit, and then the longest wait.
func better(a, b *wait) bool {
	if x, y := a.op.Kind == StoreGather, b.op.Kind == StoreGather; x != y {
		return y
	}
	return a.waited > b.waited
}

func newWait(ranks []Rank, rank int, o *OpState) *wait {
	s := ranks[rank].State
	w := &wait{rank: rank, op: o, group: &s.Groups[o.Group], waited: s.Alive.Sub(o.Start)}
	for r := range ranks {
		switch {
		case r == rank:
		case o.Peer >= 0:
			if r == o.Peer && !ranks[r].reachedPeer(rank, o, w.group.Key) {
				w.late = append(w.late, r)
			}
		case ranks[r].State == nil:
			if w.group.Has(r) {
				w.late = append(w.late, r)
			}
		default:
			if g := ranks[r].group(w.group.Key); g == nil && w.group.Has(r) || g != nil && g.Started <= o.Seq {
				w.late = append(w.late, r)
			}
		}
	}
	return w
}

// reachedPeer reports whether the rank has begun the other side of a send or receive.
func (k *Rank) reachedPeer(peer int, o *OpState, key uint64) bool {
	if k.State == nil {
		return false
	}
	return slices.ContainsFunc(k.Ops, func(p OpState) bool {
		return p.Peer == peer && p.Seq >= o.Seq && p.Kind != o.Kind && p.Group >= 0 && k.Groups[p.Group].Key == key
	})
}

// roots returns the late ranks that do not themselves wait.
func (w *wait) roots(waits map[int]*wait) (roots []int) {
	for _, r := range w.late {
		if waits[r] == nil {
			roots = append(roots, r)
		}
	}
	return roots
}

// waiters lists the ranks that wait in the operation of w.
func waiters(waits map[int]*wait, w *wait) string {
	return ranksText(inOp(waits, w))
}

func inOp(waits map[int]*wait, w *wait) (in []int) {
	for r, o := range waits {
		if o.group.Key == w.group.Key && o.op.Seq == w.op.Seq && o.op.Peer == w.op.Peer {
			in = append(in, r)
		}
	}
	slices.Sort(in)
	return in
}

func singular(n int) string {
	if n == 1 {
		return "s"
	}
	return ""
}

// late reports the rank that w and others wait for.
func late(ranks []Rank, waits map[int]*wait, w *wait, limit time.Duration) Report {
	roots := w.roots(waits)
	first := roots[0]
	for _, r := range roots[1:] {
		if ranks[r].rankStall() > ranks[first].rankStall() {
			first = r
		}
	}
	k := &ranks[first]
	p := Report{Rank: first, Ranks: roots, Op: w.op.String(), InStore: w.op.Kind == StoreGather, Waiting: len(waits), Waited: w.waited}
	name := fmt.Sprintf("rank %d", first)
	if k.State != nil {
		name = k.Name()
	}
	others := ""
	if n := len(roots) - 1; n > 0 {
		others = fmt.Sprintf(" (and %d more)", n)
	}
	text := fmt.Sprintf("hang: %s%s did not reach %s", name, others, ranks[w.rank].opText(w.op))
	rest := fmt.Sprintf("; %s", count(p.Waiting))
	if k.State != nil {
		rest += fmt.Sprintf(". rank %d %s", first, k.Activity())
	}
	switch {
	case k.Gone != "":
		p.Verdict = Lost
		p.Text = fmt.Sprintf("%s %s; %s in %s", name, k.Gone, count(p.Waiting), ranks[w.rank].opText(w.op))
		if k.State != nil {
			p.Text += ". " + k.LastSeen()
		}
	case w.op.Kind != StoreGather && w.waited >= limit && k.rankStall() >= k.allowed(limit):
		p.Verdict = Hung
		p.Text = text + " within " + limitText(limit) + rest
	default:
		p.Verdict = Late
		p.Text = fmt.Sprintf("waiting %s for %s%s in %s; %s", seconds(w.waited), name, others, ranks[w.rank].opText(w.op), count(p.Waiting))
		if k.State != nil {
			p.Text += fmt.Sprintf(". rank %d %s", first, k.Activity())
		}
	}
	return p
}

// rankStall returns the time without progress.
func (k *Rank) rankStall() time.Duration {
	if k.State == nil {
		return 1 << 62
	}
	return k.Alive.Sub(k.Progress)
}

// allowed returns the time without progress after which the rank is hung.
func (k *Rank) allowed(limit time.Duration) time.Duration {
	if k.State != nil && k.doing().Activity.computes() && k.Alive.Sub(k.Busy) < max(limit/4, time.Second) {
		return patience * limit
	}
	return limit
}

// stuck reports an operation that all its ranks have reached.
func stuck(ranks []Rank, waits map[int]*wait, w *wait, limit time.Duration) Report {
	in := inOp(waits, w)
	p := Report{Verdict: Stuck, Rank: in[len(in)-1], Ranks: in, Op: w.op.String(), Waiting: len(in), Waited: w.waited}
	p.Text = fmt.Sprintf("hang: all ranks reached %s, but it did not end within %s on %s: the connections between these and the others are likely broken. try: trireme doctor --hosts",
		ranks[w.rank].opText(w.op), limitText(limit), ranksText(in))
	return p
}
