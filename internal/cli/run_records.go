package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"

	"trireme/internal/rundir"
	"trireme/internal/runlog"
	"trireme/monitor"
)

// indexing extends the index of a run's records in the background: when a file is full and at the end. It is a
// sink, so that the records are complete when it is closed after theirs.
type indexing struct {
	dir  string
	busy sync.Mutex
	stop context.CancelFunc
	ctx  context.Context
	done sync.WaitGroup
}

func newIndexing(dir string) *indexing {
	x := &indexing{dir: dir}
	x.ctx, x.stop = context.WithCancel(context.Background())
	return x
}

// start extends the index, unless that is in progress. An error is left to readers, who build the index too.
func (x *indexing) start() {
	if !x.busy.TryLock() {
		return
	}
	x.done.Go(func() {
		defer x.busy.Unlock()
		if run, err := runlog.OpenWith(x.ctx, x.dir, runlog.Options{}); err == nil {
			run.Close()
		}
	})
}

func (x *indexing) Record(monitor.Record) error       { return nil }
func (x *indexing) Evaluate(monitor.Evaluation) error { return nil }
func (x *indexing) Note(string) error                 { return nil }

// Close ends the work: a reader continues it.
func (x *indexing) Close() error {
	x.stop()
	x.done.Wait()
	return nil
}

// noteStop records the end of this start.
func (j *job) noteStop(code int) error {
	path := filepath.Join(j.cfg.OutputDir, rundir.Events)
	if !exists(path) { // it ended before its first step
		return nil
	}
	return monitor.AppendEvent(path, monitor.Event{Kind: monitor.EventStop, Text: fmt.Sprintf("ended with code %d", code), Step: j.lastStep(), Exit: &code, Run: j.run.ID})
}

// lastStep returns the last step of the run's records, or 0. It extends their index.
func (j *job) lastStep() (step int64) {
	if run, err := runlog.Open(j.cfg.OutputDir); err == nil {
		_, step, _ = run.Steps()
		run.Close()
	}
	return step
}
