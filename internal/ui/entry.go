package ui

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"trireme/internal/rundir"
	"trireme/internal/runlog"
)

// entry is a run of the store. Its records are opened when a request needs them.
type entry struct {
	location
	mu    sync.Mutex
	row   row
	sign  signature // of the files that row was read from
	known bool      // row was read
	// tried is when the run was last judged for the list, and failed whether that failed.
	tried  time.Time
	failed bool

	open   sync.Mutex // held while run is opened or refreshed; before mu
	run    *runlog.Run
	read   signature // of the files that run was read from
	closed bool

	judging sync.Mutex // held while the run is judged; before open
	judged  judgment
}

// signature changes when a run's files do.
type signature struct {
	card, metrics, events file
	locked                bool
}

type file struct {
	size int64
	time time.Time
}

func (e *entry) signature() (s signature) {
	for name, f := range map[string]*file{rundir.Identity: &s.card, rundir.Metrics: &s.metrics, rundir.Events: &s.events} {
		if st, err := os.Lstat(filepath.Join(e.path, name)); err == nil {
			*f = file{st.Size(), st.ModTime()}
		}
	}
	return s
}

func (e *entry) setName(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.name = name
	e.row.Name = name
}

// refresh reads the row again if files changed.
func (e *entry) refresh() (r row, changed bool) {
	s := e.signature()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known && (e.row.State == rundir.Running || e.row.State == rundir.Silent) {
		s.locked = locked(e.path)
	}
	if e.known && s == e.sign {
		return e.row, false
	}
	health, text := e.row.Health, e.row.Verdict
	first := !e.known
	e.row = glance(e.location)
	e.row.Health, e.row.Verdict = health, text
	s.locked = e.row.State == rundir.Running
	e.sign, e.known = s, true
	return e.row, !first || s.metrics.size > 0
}

// records returns the run with everything that its files have.
func (e *entry) records(ctx context.Context) (*runlog.Run, error) {
	s := e.signature()
	e.open.Lock()
	defer e.open.Unlock()
	switch {
	case e.closed:
		return nil, notFound("the run is gone")
	case e.run == nil:
		run, err := runlog.OpenWith(ctx, e.path, runlog.Options{})
		if err != nil {
			return nil, &statusError{http.StatusUnprocessableEntity, err}
		}
		e.run, e.read = run, s
	case s != e.read:
		if _, err := e.run.Refresh(ctx); err != nil {
			return nil, &statusError{http.StatusUnprocessableEntity, fmt.Errorf("%s: %w", e.id, err)}
		}
		e.read = s
	}
	return e.run, nil
}

func (e *entry) close() error {
	e.open.Lock()
	defer e.open.Unlock()
	e.closed = true
	if e.run == nil {
		return nil
	}
	err := e.run.Close()
	e.run = nil
	return err
}
