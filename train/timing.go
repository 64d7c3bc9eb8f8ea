package train

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"trireme/checkpoint"
	"trireme/monitor"
	"trireme/parallel"
	"trireme/trace"
)

// windowSteps is the number of steps of a record's mean and deviation.
const windowSteps = 20

// window has the times of the last steps, in seconds.
type window struct {
	last [windowSteps]float64
	n    int
}

// add adds a step and returns the mean and the standard deviation of the last ones.
func (w *window) add(s float64) (mean, std float64) {
	w.last[w.n%windowSteps] = s
	w.n++
	all := w.last[:min(w.n, windowSteps)]
	for _, v := range all {
		mean += v / float64(len(all))
	}
	for _, v := range all {
		std += (v - mean) * (v - mean) / float64(len(all))
	}
	return mean, math.Sqrt(std)
}

// between is the time of work between the last step and the next.
type between struct {
	save, eval time.Duration
	memory     time.Duration // of save, that of checkpoints in memory
	waited     atomic.Int64  // nanoseconds that this rank has ever waited for others in waitingGroup
}

// countSave counts a checkpoint that began when the rank had waited for others in earlier ones.
func (r *Run) countSave(began, waited int64) (took time.Duration) {
	took = trace.Elapsed(began)
	r.between.save += took
	r.engine.CountSave(took - time.Duration(r.between.waited.Load()-waited))
	return took
}

// waitingGroup measures the waits of a ProcessGroup.
type waitingGroup struct {
	checkpoint.ProcessGroup
	waited *atomic.Int64
}

func (g waitingGroup) AllGatherBytes(ctx context.Context, message []byte) ([][]byte, error) {
	defer func(began int64) { g.waited.Add(trace.Now() - began) }(trace.Now())
	return g.ProcessGroup.AllGatherBytes(ctx, message)
}

// spans reads a rank's spans step by step.
type spans struct {
	from *trace.Recorder
	at   trace.Cursor
	buf  []trace.Span
}

// start skips the spans until now.
func (s *spans) start(from *trace.Recorder) {
	s.from = from
	_, s.at, _ = from.Since(trace.Cursor{})
}

// summarize splits the time of a step. ok is false if there is no recorder, or if it could not keep all spans.
func (s *spans) summarize(began, ended int64) (u trace.Summary, ok bool) {
	if s.from == nil {
		return u, false
	}
	lost := int64(0)
	s.buf, s.at, lost = s.from.AppendSince(s.buf[:0], s.at)
	return trace.Summarize(s.buf, began, ended), lost == 0
}

// addTimes adds the split of a step and the ranks' times to rank 0's record.
func (r *Run) addTimes(rec *monitor.Record, times []parallel.RankTimes, began, ended int64) {
	if r.deps.World.Rank() != 0 {
		return
	}
	if u, ok := r.spans.summarize(began, ended); ok {
		slowest := time.Duration(0)
		for _, t := range times {
			slowest = max(slowest, t.Own)
		}
		if len(times) > 0 {
			u.Slower((slowest - times[0].Own).Seconds())
		}
		rec.Split, rec.CommSeconds, rec.CommOps = &u.Split, u.CommSeconds, u.CommOps
	}
	if times == nil || len(times) > parallel.MaxRankTimes {
		return
	}
	rec.Ranks = &monitor.Ranks{}
	for _, t := range times {
		rec.Ranks.Own = append(rec.Ranks.Own, t.Own.Seconds())
		rec.Ranks.Data = append(rec.Ranks.Data, t.Data.Seconds())
		rec.Ranks.Comm = append(rec.Ranks.Comm, t.Comm.Seconds())
		rec.Ranks.Save = append(rec.Ranks.Save, t.Save.Seconds())
	}
}
