package runlog

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"trireme/internal/flock"
	"trireme/internal/rundir"
	"trireme/monitor"
)

// Events reads the events of the run, in the order of time. A run without events.jsonl has those of run.json.
func (r *Run) Events() ([]monitor.Event, error) {
	out, _, err := r.eventsFrom(0)
	if errors.Is(err, fs.ErrNotExist) {
		return r.starts(), nil
	}
	return out, err
}

// eventsFrom reads the events from byte at, and returns where the next one begins.
func (r *Run) eventsFrom(at int64) (out []monitor.Event, next int64, err error) {
	f, err := flock.Open(filepath.Join(r.dir, rundir.Events), os.O_RDONLY, 0)
	if err != nil {
		return nil, at, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, at, err
	}
	if st.Size() < at {
		at = 0
	}
	b, err := io.ReadAll(io.NewSectionReader(f, at, st.Size()-at))
	if err != nil {
		return nil, at, err
	}
	end := bytes.LastIndexByte(b, '\n') + 1 // the rest is torn
	readLines(bytes.NewReader(b[:end]), func(line []byte) bool {
		if e, err := monitor.ParseEvent(line); err == nil {
			out = append(out, e)
		}
		return true
	})
	return out, at + int64(end), nil
}

// starts returns the starts and stops of run.json.
func (r *Run) starts() (out []monitor.Event) {
	card := r.Card()
	if card.Started.IsZero() {
		return nil
	}
	for i, s := range append(card.Earlier[:len(card.Earlier):len(card.Earlier)], card.Start) {
		kind := monitor.EventStart
		if i > 0 {
			kind = monitor.EventResume
		}
		out = append(out, monitor.Event{Time: s.Started, Kind: kind, Run: card.ID})
		if s.Ended != nil {
			out = append(out, monitor.Event{Time: *s.Ended, Kind: monitor.EventStop, Exit: s.Exit, Run: card.ID})
		}
	}
	return out
}
