package bench

import "trireme/trace"

// splitter averages the splits of steps.
type splitter struct {
	from  *trace.Recorder // nil: no splits
	at    trace.Cursor
	buf   []trace.Span
	began int64 // the end of the step before
	steps float64
	sum   trace.Split
}

func newSplitter(from *trace.Recorder) *splitter { return &splitter{from: from, began: trace.Now()} }

// skip ends a step that does not count.
func (s *splitter) skip() {
	s.buf, s.at, _ = s.from.AppendSince(s.buf[:0], s.at)
	s.began = trace.Now()
}

// add ends a step and returns the mean of the steps added, nil without a recorder.
func (s *splitter) add() *trace.Split {
	if s.from == nil {
		return nil
	}
	began := s.began
	s.skip()
	u := trace.Summarize(s.buf, began, s.began)
	s.steps++
	s.sum = s.sum.Add(u.Split)
	mean := s.sum.Scale(1 / s.steps)
	return &mean
}
