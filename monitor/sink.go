package monitor

import (
	"errors"
)

// Sink receives records. Methods are called from one goroutine and must not wait for a reader, a
// network or a terminal.
type Sink interface {
	Record(Record) error
	Evaluate(Evaluation) error
	// Note receives text between records, such as a warning or a saved checkpoint.
	Note(text string) error
	// Close flushes the sink, which is not used afterwards.
	Close() error
}

// Multi combines sinks. It calls report with the first error of each sink and keeps using the sink,
// since a full disk may get free space. Its methods return nil, so that a failing sink does not stop a
// run; Close returns errors.
func Multi(report func(error), sinks ...Sink) Sink {
	return &multi{report: report, sinks: sinks, failed: make([]bool, len(sinks))}
}

type multi struct {
	report func(error)
	sinks  []Sink
	failed []bool
}

func (m *multi) each(f func(Sink) error) {
	for i, s := range m.sinks {
		if err := f(s); err != nil && !m.failed[i] {
			m.failed[i] = true
			if m.report != nil {
				m.report(err)
			}
		}
	}
}

func (m *multi) Record(r Record) error {
	m.each(func(s Sink) error { return s.Record(r) })
	return nil
}

func (m *multi) Evaluate(e Evaluation) error {
	m.each(func(s Sink) error { return s.Evaluate(e) })
	return nil
}

func (m *multi) Note(text string) error {
	m.each(func(s Sink) error { return s.Note(text) })
	return nil
}

// Histograms passes h to the sinks that show them.
func (m *multi) Histograms(h Histograms) error {
	m.each(func(s Sink) error { return WriteHistograms(s, h) })
	return nil
}

// Event passes an event to each sink, as Emit does.
func (m *multi) Event(e Event) error {
	m.each(func(s Sink) error { return Emit(s, e) })
	return nil
}

func (m *multi) Close() error {
	var errs []error
	for _, s := range m.sinks {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// Every passes on the first record, every n-th step, the last of the run and of each epoch, and all
// that are not finite or were skipped. n below 2 passes all.
func Every(n int, s Sink) Sink { return &every{Sink: s, n: int64(max(n, 1))} }

type every struct {
	Sink
	n     int64
	began bool
}

// Event passes an event to the sink, as Emit does.
func (e *every) Event(v Event) error { return Emit(e.Sink, v) }

func (e *every) Record(r Record) error {
	if e.began && r.Step%e.n != 0 && r.Step != r.MaxSteps && r.EpochLoss == nil && r.Finite() && !r.Skipped {
		return nil
	}
	e.began = true
	return e.Sink.Record(r)
}

// Histograms passes all on.
func (e *every) Histograms(h Histograms) error { return WriteHistograms(e.Sink, h) }
