package trackers

import (
	"errors"
	"sync"
	"time"

	"trireme/monitor"
)

// Run describes a run to trackers.
type Run struct {
	ID      string
	Name    string          // shown; the base name of the output directory
	Dir     string          // output directory
	Resumed int64           // the step that the run resumes after; 0 is a new run
	Started time.Time       // of this start
	Params  []monitor.Param // the configuration
	// Lookup reads a variable of the environment.
	Lookup func(name string) (string, bool)
	// Print shows a note to the user. It may be called from any goroutine; nil shows none.
	Print func(text string)
	// End returns how the run has ended. Close calls it; nil is a run that has completed.
	End func() End
}

// End is how a run ended.
type End struct {
	Code int // exit code: 0 complete, 75 stopped with its state saved, others failed
}

// stopped is the exit code of a run that stopped on request.
const stopped = 75

func (r Run) end() End {
	if r.End == nil {
		return End{}
	}
	return r.End()
}

// variable returns a variable of the environment, or "".
func (r Run) variable(name string) string {
	if r.Lookup == nil {
		return ""
	}
	v, _ := r.Lookup(name)
	return v
}

// or returns s, or else the name of projects without one.
func or(s string) string {
	if s == "" {
		return "trireme"
	}
	return s
}

// Open returns a sink for the trackers that c turns on. Steps between those of log_every_n_steps go only
// to metrics, which count. A tracker that cannot start is noted.
func Open(c monitor.Config, run Run) monitor.Sink {
	var s set
	logged := func(name string, to sender) {
		s = append(s, monitor.Every(c.LogEveryNSteps, newQueue(name, to, run, usual)))
	}
	if c.CSV {
		logged("csv", newCSV(run))
	}
	if c.WandB.Mode == monitor.WandBOffline {
		logged("wandb", newWandB(c.WandB, run))
	}
	if c.MLflow.URL != "" {
		logged("mlflow", newMLflow(c.MLflow, run))
	}
	if c.Trackio.URL != "" {
		logged("trackio", newTrackio(c.Trackio, run))
	}
	if c.Prometheus.Addr != "" {
		if p, err := listen(c.Prometheus.Addr, run); err != nil {
			run.note("prometheus: %v; training continues without it", err)
		} else {
			s = append(s, p)
		}
	}
	if c.OTLP.URL != "" {
		s = append(s, newOTLP(c.OTLP, run, usual))
	}
	return s
}

// set is several trackers, which end at the same time.
type set []monitor.Sink

func (s set) each(f func(monitor.Sink) error) error {
	var errs []error
	for _, t := range s {
		errs = append(errs, f(t))
	}
	return errors.Join(errs...)
}

func (s set) Record(r monitor.Record) error {
	return s.each(func(t monitor.Sink) error { return t.Record(r) })
}

func (s set) Evaluate(e monitor.Evaluation) error {
	return s.each(func(t monitor.Sink) error { return t.Evaluate(e) })
}

func (s set) Note(text string) error {
	return s.each(func(t monitor.Sink) error { return t.Note(text) })
}

func (s set) Histograms(h monitor.Histograms) error {
	return s.each(func(t monitor.Sink) error { return monitor.WriteHistograms(t, h) })
}

// Close closes all at once, so that it takes no longer than one.
func (s set) Close() error {
	errs := make([]error, len(s))
	var all sync.WaitGroup
	for i, t := range s {
		all.Go(func() { errs[i] = t.Close() })
	}
	all.Wait()
	return errors.Join(errs...)
}
