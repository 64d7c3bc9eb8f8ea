package ui

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"trireme/internal/flock"
	"trireme/internal/rundir"
	"trireme/monitor"
)

// row is a run in the list. Times are seconds since 1970, 0 if unknown; a missing number is null.
type row struct {
	ID              string       `json:"id"`
	Name            string       `json:"name"`
	Path            string       `json:"path"`
	State           rundir.State `json:"state"`
	Started         float64      `json:"started"`
	Updated         float64      `json:"updated"`
	Seconds         float64      `json:"seconds"` // since the last start
	ETA             float64      `json:"eta"`     // seconds; 0: unknown
	Step            int64        `json:"step"`
	MaxSteps        int64        `json:"max_steps"`
	Loss            *float64     `json:"loss"`
	EvalLoss        *float64     `json:"eval_loss"`
	TokensPerSecond float64      `json:"tokens_per_second"`
	MFU             float64      `json:"mfu"`
	World           int          `json:"world"`
	Strategy        string       `json:"strategy"`
	Device          string       `json:"device"`
	Parameters      int64        `json:"parameters"`
	Health          string       `json:"health"` // healthy, doubtful, unhealthy, too short; empty: not judged yet
	Verdict         string       `json:"verdict"`
}

// glance reads a run's row from its card and the end of its records, without their index: a thousand runs list in
// less than a second.
func glance(p location) row {
	r := row{ID: p.id, Name: p.name, Path: p.id, State: rundir.Unknown}
	card, err := rundir.ReadCard(p.path)
	if err == nil {
		r.World, r.Strategy, r.Device, r.Parameters = card.World, card.Strategy, card.Device, card.Parameters
		r.Started, r.State = unix(card.Started), rundir.StateOf(p.path, card)
	}
	rec, eval := newest(filepath.Join(p.path, rundir.Metrics))
	if rec != nil {
		r.Step, r.MaxSteps, r.Updated = rec.Step, rec.MaxSteps, unix(rec.Time)
		r.Loss, r.TokensPerSecond, r.MFU = finite(rec.Loss), orZero(rec.TokensPerSecond()), orZero(rec.MFU)
		r.World = max(r.World, rec.WorldSize)
		if r.State == rundir.Running && rec.MaxSteps > rec.Step {
			r.ETA = orZero(float64(rec.MaxSteps-rec.Step) * rec.StepSeconds)
		}
	}
	if eval != nil {
		r.EvalLoss = finite(eval.Loss)
		r.Updated = max(r.Updated, unix(eval.Time))
	}
	switch until := r.Updated; {
	case r.Started == 0:
	case card.Ended != nil:
		r.Seconds = card.Ended.Sub(card.Started).Seconds()
	case until > r.Started:
		r.Seconds = until - r.Started
	}
	return r
}

// locked reports whether a process holds the lock of a run.
func locked(dir string) bool {
	_, held := rundir.Holder(dir)
	return held
}

// newest returns the last record and the last evaluation of the end of a file; nil if there are none.
func newest(path string) (rec *monitor.Record, eval *monitor.Evaluation) {
	f, err := flock.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, nil
	}
	b := make([]byte, min(st.Size(), 64<<10))
	n, err := f.ReadAt(b, st.Size()-int64(len(b)))
	if err != nil && err != io.EOF {
		return nil, nil
	}
	lines := bytes.Split(b[:n], []byte("\n"))
	for i := len(lines) - 2; i >= 0 && (rec == nil || eval == nil); i-- { // the last one is torn or empty
		if rec != nil && !bytes.Contains(lines[i], []byte(`"eval_loss"`)) {
			continue
		}
		switch r, e, err := monitor.Parse(lines[i]); {
		case err != nil:
		case r != nil && rec == nil:
			rec = r
		case e != nil && eval == nil:
			eval = e
		}
	}
	return rec, eval
}

func unix(t time.Time) float64 {
	if t.IsZero() || t.Year() < 1970 || t.Year() > 9999 {
		return 0
	}
	return float64(t.UnixNano()) / 1e9
}

// finite returns a number that JSON has, or nil.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func orZero(v float64) float64 {
	if p := finite(v); p != nil {
		return *p
	}
	return 0
}
