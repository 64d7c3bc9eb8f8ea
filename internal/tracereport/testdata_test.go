package tracereport

import (
	"fmt"
	"slices"

	"trireme/internal/tracefile"
	"trireme/trace"
)

const ms = 1_000_000

// planned makes two steps of some ranks: data, forward of four units with all-gathers ahead of them, backward with a
// reduce-scatter each, the update. Rank slow takes 3 ms more for each unit's forward; slowData, its rows.
func planned(ranks, slow, slowData int) *tracefile.Trace {
	t := &tracefile.Trace{}
	const units, forward, backward, transfer = 4, 2 * ms, 4 * ms, 1 * ms
	out := make([]tracefile.Rank, ranks)
	now := make([]int64, ranks)  // of the compute stream
	free := make([]int64, ranks) // of the communication stream
	for r := range out {
		out[r].Rank = r
		now[r] = 1000 * ms
	}
	add := func(r int, s trace.Span) { out[r].Spans = append(out[r].Spans, s) }
	seq := uint64(0)
	// collective runs one on all ranks, each from when it is issued, and returns the ends.
	collective := func(step int64, kind trace.Kind, unit string, issued []int64) (ends []int64) {
		seq++
		starts := make([]int64, ranks)
		for r := range starts {
			starts[r] = max(issued[r], free[r])
		}
		last := slices.Max(starts)
		for r := range starts {
			free[r] = last + transfer
			add(r, trace.Span{Start: starts[r], End: free[r], Ready: last, Step: step, Stream: trace.Comm, Kind: kind, Unit: unit, Axis: "shard", Seq: seq, Bytes: 1 << 20})
		}
		return slices.Clone(free)
	}
	wait := func(step int64, kind trace.Kind, unit string, ends []int64) {
		for r, end := range ends {
			if end > now[r] {
				add(r, trace.Span{Start: now[r], End: end, Step: step, Kind: trace.Wait, Unit: unit, Op: kind.String(), Axis: "shard"})
				now[r] = end
			}
		}
	}
	work := func(step int64, kind trace.Kind, unit string, length func(r int) int64) {
		for r := range now {
			add(r, trace.Span{Start: now[r], End: now[r] + length(r), Step: step, Kind: kind, Unit: unit})
			now[r] += length(r)
		}
	}
	for step := int64(10); step <= 11; step++ {
		began := slices.Clone(now)
		work(step, trace.Data, "", func(r int) int64 {
			if r == slowData {
				return 20 * ms
			}
			return ms / 10
		})
		gathered := collective(step, trace.AllGather, "layers.0", now)
		for u := range units {
			name := fmt.Sprintf("layers.%d", u)
			var next []int64
			if u+1 < units { // the next unit's is prefetched
				next = collective(step, trace.AllGather, fmt.Sprintf("layers.%d", u+1), gathered)
			}
			wait(step, trace.AllGather, name, gathered)
			work(step, trace.Forward, name, func(r int) int64 {
				if r == slow {
					return forward + 3*ms
				}
				return forward
			})
			gathered = next
		}
		var reduced []int64
		for u := units - 1; u >= 0; u-- {
			name := fmt.Sprintf("layers.%d", u)
			work(step, trace.Backward, name, func(int) int64 { return backward })
			reduced = collective(step, trace.ReduceScatter, name, now)
		}
		wait(step, trace.ReduceScatter, "layers.0", reduced)
		work(step, trace.Optimizer, "", func(int) int64 { return ms })
		for r := range now {
			add(r, trace.Span{Start: began[r], End: now[r], Step: step, Kind: trace.Step})
		}
	}
	for _, r := range out {
		t.Add(r)
	}
	return t
}
