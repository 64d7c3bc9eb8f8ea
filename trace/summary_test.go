package trace

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

const second = 1e9

// span has times in seconds.
func span(k Kind, start, end float64) Span {
	return Span{Kind: k, Start: int64(start * second), End: int64(end * second)}
}

func collective(k Kind, axis string, start, ready, end float64) Span {
	s := span(k, start, end)
	s.Stream, s.Axis, s.Ready, s.Bytes = Comm, axis, int64(ready*second), 100
	return s
}

func wait(op string, start, end float64) Span {
	s := span(Wait, start, end)
	s.Op = op
	return s
}

var near = cmpopts.EquateApprox(0, 1e-9)

func TestSummarize(t *testing.T) {
	spans := []Span{
		span(Step, 10, 20),
		span(Data, 10, 11),
		wait("all_gather", 11.5, 12),
		span(Forward, 11, 13),
		span(Recompute, 13.5, 14),
		span(Backward, 13, 15),
		wait("reduce_scatter", 15.5, 17.5),
		span(Optimizer, 17.5, 18.5),
		span(Offload, 18, 18.25),
		wait("offload", 18.5, 18.75),
		span(Publish, 19, 19.5),
		collective(AllGather, "shard", 9, 9, 9.5),              // of the step before
		collective(AllGather, "shard", 11, 11, 12),             // half of it hidden
		collective(ReduceScatter, "shard", 13, 13, 14),         // hidden
		collective(ReduceScatter, "shard", 14, 16.5, 17),       // waits for a slower rank
		{Stream: Loader, Kind: Data, Start: 10e9, End: 19e9},   // beside
		{Stream: Disk, Kind: Offload, Start: 11e9, End: 12e9},  // beside
		{Stream: Comm, Kind: Offload, Start: 18e9, End: 185e8}, // no collective
	}
	want := Summary{
		Split: Split{Data: 1, Forward: 1.5, Backward: 1.5, Recompute: 0.5, Optimizer: 0.75, Publish: 0.5, Offload: 0.5, Comm: 0.5 + 0.5 + 0.5, Wait: 1, Other: 0.5 + 0.25 + 0.5},
		CommOps: map[string]CommOp{
			"all_gather/shard":     {Count: 2, Bytes: 200, Seconds: 1.5, Exposed: 0.5},
			"reduce_scatter/shard": {Count: 2, Bytes: 200, Seconds: 4, Exposed: 1.5},
		},
		CommSeconds: 5.5,
	}
	for range 2 {
		got := Summarize(spans, 10*second, 20*second)
		if d := cmp.Diff(want, got, near, cmp.AllowUnexported(Summary{})); d != "" {
			t.Error(d)
		}
		slices.Reverse(spans) // any order
	}
}

func TestSlower(t *testing.T) {
	at := func() Summary {
		return Summarize([]Span{
			wait("all_reduce", 0, 4), collective(AllReduce, "world", 0, 1, 2), collective(AllReduce, "world", 2, 0, 4),
		}, 0, 5*second)
	}
	for _, c := range []struct{ slower, wait float64 }{{-1, 1}, {0.5, 1}, {1.5, 1.5}, {2.5, 2.5}, {9, 3}} {
		u := at()
		u.Slower(c.slower)
		if math.Abs(u.Split.Wait-c.wait) > 1e-9 || math.Abs(u.Split.Wait+u.Split.Comm-4) > 1e-9 {
			t.Errorf("another rank takes %v s longer: wait %v, comm %v, want wait %v", c.slower, u.Split.Wait, u.Split.Comm, c.wait)
		}
	}
}

// TestEvaluationIsOutside: collectives of an evaluation between two steps are in neither.
func TestEvaluationIsOutside(t *testing.T) {
	u := Summarize([]Span{
		span(Evaluation, 5, 8), span(Forward, 5, 6), wait("all_gather", 6, 7), collective(AllGather, "shard", 5, 5, 7),
		span(Forward, 9, 10),
	}, 9*second, 10*second)
	if d := cmp.Diff(Summary{Split: Split{Forward: 1}}, u, near, cmp.AllowUnexported(Summary{})); d != "" {
		t.Error(d)
	}
}

func TestSplit(t *testing.T) {
	s := Split{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	if got := s.Add(s).Scale(0.5); got != s || s.Sum() != 66 {
		t.Errorf("%+v sums to %v", got, s.Sum())
	}
}

func TestNoSpans(t *testing.T) {
	if u := Summarize(nil, 3*second, 5*second); u.Split != (Split{Other: 2}) || u.CommOps != nil {
		t.Errorf("%+v", u)
	}
}

// TestSum: whatever the spans, the categories sum to the step, and no more time is exposed than collectives took.
func TestSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var spans []Span
		var nest func(from, to int64, depth int)
		nest = func(from, to int64, depth int) {
			for at := from; at < to; {
				a := rapid.Int64Range(at, to).Draw(t, "start")
				b := rapid.Int64Range(a, to).Draw(t, "end")
				k := Kind(rapid.IntRange(int(Data), int(numKinds)-1).Draw(t, "kind"))
				if depth < 2 && k != Wait && rapid.Bool().Draw(t, "inside") {
					nest(a, b, depth+1)
				}
				spans = append(spans, Span{Kind: k, Start: a, End: b})
				at = b + 1
			}
		}
		nest(0, rapid.Int64Range(1, 1000).Draw(t, "length"), 0)
		at := int64(0)
		for range rapid.IntRange(0, 8).Draw(t, "collectives") {
			a := at + rapid.Int64Range(0, 100).Draw(t, "pause")
			at = a + rapid.Int64Range(0, 200).Draw(t, "takes")
			spans = append(spans, Span{Stream: Comm, Kind: AllGather, Start: a, End: at, Ready: rapid.Int64Range(0, at).Draw(t, "ready")})
		}
		from := rapid.Int64Range(0, 500).Draw(t, "from")
		to := rapid.Int64Range(from, 1200).Draw(t, "to")
		u := Summarize(spans, from, to)
		u.Slower(rapid.Float64Range(0, 1e-6).Draw(t, "slower"))
		if want := float64(to-from) / 1e9; math.Abs(u.Split.Sum()-want) > 1e-8 {
			t.Fatalf("%+v sums to %v, want %v", u.Split, u.Split.Sum(), want)
		}
		for _, v := range []float64{u.Split.Comm, u.Split.Wait, u.Split.Other, u.Split.Offload} {
			if v < -1e-15 {
				t.Fatalf("negative: %+v", u.Split)
			}
		}
		exposed := 0.0
		for _, op := range u.CommOps {
			exposed += op.Exposed
		}
		if exposed > u.CommSeconds+1e-8 || exposed > u.Split.Comm+u.Split.Wait+1e-8 {
			t.Fatalf("exposed %v of %v, split %+v", exposed, u.CommSeconds, u.Split)
		}
	})
}

func BenchmarkSummarize(b *testing.B) {
	var spans []Span
	for i := range 200 { // 50 units, forward and backward, with an all-gather and a wait each
		at := float64(i)
		spans = append(spans, wait("all_gather", at+0.1, at+0.2), span(Forward, at, at+0.9), collective(AllGather, "shard", at, at, at+0.5))
	}
	for b.Loop() {
		Summarize(spans, 0, 200*second)
	}
}
