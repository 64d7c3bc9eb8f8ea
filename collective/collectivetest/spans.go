package collectivetest

import (
	"fmt"
	"testing"
	"time"

	"trireme/collective"
	"trireme/tensor"
	"trireme/trace"
)

// RunSpans lets rank 1 come late to an operation: the spans of the others say how long they waited for it. arrival
// is whether ranks must know when the last one came; in a chain or a tree they see their neighbors only.
func RunSpans(t *testing.T, mk Make, arrival bool) {
	const late = 60 * time.Millisecond
	recorders := []*trace.Recorder{trace.New(0), trace.New(0)}
	cfg := collective.Config{Trace: func(rank int) *trace.Recorder { return recorders[rank] }}
	each(t, maker{worlds: mk, meeting: meeting}, 2, cfg, func(r *rank) error {
		for i, elems := range []int{10, 50000} {
			x := r.full(tensor.F32, elems, r.Rank())
			r.meet()
			if r.Rank() == 1 {
				time.Sleep(late)
			}
			if err := r.g.AllReduce(ctx, x, collective.Sum, "layer"); err != nil {
				return err
			}
			all, _, _ := recorders[r.Rank()].Since(trace.Cursor{})
			if len(all) != i+1 {
				return fmt.Errorf("%d spans, want %d", len(all), i+1)
			}
			s := all[i]
			if s.Stream != trace.Comm || s.Kind != trace.AllReduce || s.Unit != "layer" || s.Axis != "all" || s.Seq != uint64(i) || s.Bytes != int64(4*elems) {
				return fmt.Errorf("span %+v", s)
			}
			waited := time.Duration(s.Ready - s.Start)
			if s.Ready == 0 && !arrival {
				continue
			}
			if s.Ready < s.Start || s.Ready > s.End || r.Rank() == 0 && waited < late/2 {
				return fmt.Errorf("%d elements: rank %d waited %v of %v for the other, which came %v late", elems, r.Rank(), waited, time.Duration(s.End-s.Start), late)
			}
		}
		return nil
	})
}
