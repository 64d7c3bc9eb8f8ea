package monitor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// Event is something that happened to a run at a step: a line of events.jsonl.
type Event struct {
	Time time.Time `json:"time"`
	Step int64     `json:"step"` // the last step with a record before it; 0: none
	Kind EventKind `json:"kind"`
	Text string    `json:"text"`
	// Rule and Over are of alerts: the rule of the configuration, and whether its incident is over.
	Rule string `json:"rule,omitempty"`
	Over bool   `json:"over,omitempty"`
	// Path and Bytes are of checkpoints: the directory as the run wrote it, and its size.
	Path  string `json:"path,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
	// WriteSeconds and StallSeconds are of checkpoints that were written in the background: how long rank 0 wrote
	// its part, and how long its steps waited.
	WriteSeconds float64 `json:"write_seconds,omitempty"`
	StallSeconds float64 `json:"stall_seconds,omitempty"`
	// Exit is the exit code of a stop.
	Exit *int `json:"exit,omitempty"`
	// Samples are an evaluation's generated texts, if it has any.
	Samples []string `json:"samples,omitempty"`
	Run     string   `json:"run,omitempty"`
}

// EventKind is the kind of an event.
type EventKind string

// The kinds of events.
const (
	EventNote       EventKind = "note"
	EventCheckpoint EventKind = "checkpoint"
	EventEvaluation EventKind = "evaluation"
	EventStart      EventKind = "start"  // of a new run
	EventResume     EventKind = "resume" // a later start of the run
	EventStop       EventKind = "stop"   // the end of a start
	EventAlert      EventKind = "alert"
)

// EventSink is a Sink that keeps events as they are. Others receive a checkpoint and an alert as a Note.
type EventSink interface {
	Event(Event) error
}

// Emit passes an event to a sink. e.Time is the time of the call if it is zero.
func Emit(s Sink, e Event) error {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if to, ok := s.(EventSink); ok {
		return to.Event(e)
	}
	if e.Text == "" {
		return nil
	}
	return s.Note(e.Text)
}

// Events writes events.jsonl: notes, checkpoints, evaluations and alerts, one JSON object a line.
type Events struct {
	f    *os.File
	run  string
	step int64
}

var (
	_ Sink      = (*Events)(nil)
	_ EventSink = (*Events)(nil)
)

// OpenEvents opens the file to append events of the run with an id. Earlier events stay: those of steps that a
// resumed run repeats happened too.
func OpenEvents(path, run string) (*Events, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	return &Events{f: f, run: run}, nil
}

// AppendEvent appends one event to the file at path. Several processes may do so.
func AppendEvent(path string, e Event) error {
	s, err := OpenEvents(path, e.Run)
	if err != nil {
		return err
	}
	return errors.Join(s.Event(e), s.Close())
}

// Record notes the step.
func (s *Events) Record(r Record) error {
	s.step = r.Step
	return nil
}

// Evaluate writes the scores of an evaluation.
func (s *Events) Evaluate(e Evaluation) error {
	text := fmt.Sprintf("evaluation loss %.6g", e.Loss)
	if e.Accuracy != nil {
		text += fmt.Sprintf(", accuracy %.4g", *e.Accuracy)
	}
	return s.Event(Event{Time: e.Time, Step: e.Step, Kind: EventEvaluation, Text: text, Samples: e.Samples})
}

// Note writes a note.
func (s *Events) Note(text string) error { return s.Event(Event{Kind: EventNote, Text: text}) }

// Event writes one line. A zero time is now, and a zero step that of the last record.
func (s *Events) Event(e Event) error {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time = e.Time.UTC()
	if e.Step == 0 {
		e.Step = s.step
	}
	if e.Run == "" {
		e.Run = s.run
	}
	b, err := json.Marshal(e)
	if err == nil {
		_, err = s.f.Write(append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("monitor: events: %w", err)
	}
	return nil
}

// Close closes the file.
func (s *Events) Close() error {
	if err := s.f.Close(); err != nil {
		return fmt.Errorf("monitor: events: %w", err)
	}
	return nil
}

// ParseEvent reads a line of events.jsonl. It ignores unknown keys; kinds may be of later versions.
func ParseEvent(line []byte) (e Event, err error) {
	if err := json.Unmarshal(line, &e); err != nil {
		return e, fmt.Errorf("monitor: event: %w", err)
	}
	if e.Kind == "" || e.Step < 0 {
		return e, errors.New("monitor: event: no kind or step")
	}
	return e, nil
}
