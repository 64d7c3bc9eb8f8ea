package trackers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"trireme/internal/rundir"
	"trireme/internal/wire"
	"trireme/monitor"
)

// wandb writes a run directory of Weights & Biases in offline mode: a log of Record messages, which wandb
// sync uploads and wandb leet shows.
type wandb struct {
	c   monitor.WandB
	run Run
	f   *os.File // nil before the first send
	wandbState
	out []byte // of a send
}

// wandbState is the state after the last write. A failed write leaves it.
type wandbState struct {
	log     wandbLog
	num     int64                      // of the last record
	step    int64                      // of row
	row     map[string]json.RawMessage // history of a step that may still get values; nil for none
	at      time.Time                  // of row
	summary map[string]json.RawMessage // values since the last summary record
}

// Field numbers of Record and of the messages below it.
const (
	recordNum, recordHistory, recordSummary, recordFiles        = 1, 2, 3, 6
	recordOutput, recordRun, recordExit, recordHeader           = 13, 17, 18, 21
	recordInfo                                                  = 200
	runID, runEntity, runProject, runConfig, runGroup           = 1, 2, 3, 4, 6
	runDisplayName, runTags, runHost, runStartTime, runResume   = 8, 10, 13, 17, 24
	itemKey, itemNestedKey, itemValue                           = 1, 2, 16
	historyItem, historyStep, summaryUpdate, configUpdate       = 1, 2, 1, 1
	outputType, outputTime, outputLine, exitCode, exitRuntime   = 1, 2, 3, 1, 2
	filesItem, filePath, headerVersion, versionName, versionMin = 1, 1, 1, 1, 2
)

func newWandB(c monitor.WandB, run Run) *wandb {
	return &wandb{c: c, run: run, wandbState: wandbState{summary: map[string]json.RawMessage{}}}
}

func (w *wandb) send(_ context.Context, events []event) error {
	return w.write(func(s *wandbState) {
		for _, e := range events {
			w.add(s, e)
		}
		w.summarize(s)
	})
}

func (w *wandb) add(s *wandbState, e event) {
	if e.note != "" {
		line := wire.Varint(nil, outputType, 0) // STDERR, as the run prints it
		line = wire.Bytes(line, outputTime, wire.Timestamp(e.at))
		w.record(s, recordOutput, wire.Text(line, outputLine, monitor.EscapeControl(e.note)+"\n"))
		return
	}
	values := map[string]any{}
	all, step := e.scalars()
	for _, v := range all {
		values[v.Tag] = bare(v.Value)
	}
	if e.histograms != nil {
		step = e.histograms.Step
		histogramValues(*e.histograms, "histogram", values)
	}
	if s.row != nil && s.step != step {
		w.history(s)
	}
	if s.row == nil {
		s.row = map[string]json.RawMessage{}
	}
	s.step, s.at = step, e.at
	for k, v := range values {
		text, ok := v.(json.RawMessage)
		if !ok {
			text, _ = json.Marshal(v) // histograms have finite numbers
		}
		s.row[k], s.summary[k] = text, text
	}
}

// bare is a number as Python's json writes it, with NaN and Infinity.
func bare(v float64) json.RawMessage {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return json.RawMessage(infinite(v))
	}
	text, _ := number(v).MarshalJSON()
	return text
}

// history writes the row. Steps only grow in a file, so a step has one row.
func (w *wandb) history(s *wandbState) {
	s.row["_step"] = fmt.Append(nil, s.step)
	s.row["_timestamp"] = bare(float64(s.at.UnixNano()) / 1e9)
	s.row["_runtime"] = bare(s.at.Sub(w.run.Started).Seconds())
	for _, k := range []string{"_step", "_timestamp", "_runtime"} {
		s.summary[k] = s.row[k]
	}
	h := items(nil, historyItem, s.row)
	w.record(s, recordHistory, wire.Bytes(h, historyStep, wire.Varint(nil, 1, uint64(s.step))))
	s.row = nil
}

// items appends a map as items with field number n.
func items(b []byte, n protowire.Number, m map[string]json.RawMessage) []byte {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b = wire.Bytes(b, n, wire.Bytes(wire.Text(nil, itemNestedKey, k), itemValue, m[k]))
	}
	return b
}

func (w *wandb) summarize(s *wandbState) {
	if len(s.summary) > 0 {
		w.record(s, recordSummary, items(nil, summaryUpdate, s.summary))
		s.summary = map[string]json.RawMessage{}
	}
}

// record appends a Record whose field number n is message.
func (w *wandb) record(s *wandbState, n protowire.Number, message []byte) {
	s.num++
	b := wire.Bytes(wire.Varint(nil, recordNum, uint64(s.num)), n, message)
	w.out = s.log.append(w.out, wire.Bytes(b, recordInfo, wire.Text(nil, 1, w.run.ID)))
}

// write writes the records that fill appends in one write. After an error nothing has changed.
func (w *wandb) write(fill func(*wandbState)) error {
	next := w.wandbState
	next.row, next.summary = maps.Clone(w.row), maps.Clone(w.summary)
	w.out = w.out[:0]
	if w.f == nil {
		if err := w.create(); err != nil {
			return err
		}
		w.begin(&next)
	}
	fill(&next)
	if _, err := w.f.WriteAt(w.out, w.log.size); err != nil {
		w.f.Truncate(w.log.size)
		if w.log.size == 0 {
			err = errors.Join(err, w.f.Close())
			w.f = nil
		}
		return err
	}
	w.wandbState = next
	return nil
}

// create makes the directory, wandb/offline-run-TIME-ID with run-ID.wandb and files/.
func (w *wandb) create() error {
	for at := w.run.Started; ; at = at.Add(time.Second) {
		dir := filepath.Join(w.run.Dir, "wandb", fmt.Sprintf("offline-run-%s-%s", at.Format("20060102_150405"), w.run.ID))
		if err := os.MkdirAll(filepath.Join(dir, "files"), 0o755); err != nil {
			return err
		}
		f, err := os.OpenFile(filepath.Join(dir, "run-"+w.run.ID+".wandb"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue // an earlier start in the same second
		}
		w.f = f
		return err
	}
}

// wandbConfigName is the name of the copy of config.yaml. config.yaml is W&B's own.
const wandbConfigName = "trireme.yaml"

// begin writes the header and the run.
func (w *wandb) begin(s *wandbState) {
	w.out = s.log.header(w.out)
	version := wire.Text(wire.Text(nil, versionName, "trireme"), versionMin, "0.6.0")
	w.record(s, recordHeader, wire.Bytes(nil, headerVersion, version))

	config := map[string]json.RawMessage{}
	for k, v := range tree(w.run.Params) {
		config[k], _ = json.Marshal(v) // bool, number, string or a map of them
	}
	var c []byte
	for _, k := range slices.Sorted(maps.Keys(config)) {
		c = wire.Bytes(c, configUpdate, wire.Bytes(wire.Text(nil, itemKey, k), itemValue, config[k]))
	}
	r := wire.Text(nil, runID, w.run.ID)
	if w.c.Entity != "" {
		r = wire.Text(r, runEntity, w.c.Entity)
	}
	r = wire.Bytes(wire.Text(r, runProject, or(w.c.Project)), runConfig, c)
	if w.c.Group != "" {
		r = wire.Text(r, runGroup, w.c.Group)
	}
	name := w.c.Name
	if name == "" {
		name = w.run.Name
	}
	r = wire.Text(r, runDisplayName, monitor.EscapeControl(name))
	for _, tag := range w.c.Tags {
		r = wire.Text(r, runTags, monitor.EscapeControl(tag))
	}
	host, _ := os.Hostname()
	r = wire.Bytes(wire.Text(r, runHost, host), runStartTime, wire.Timestamp(w.run.Started))
	if w.run.Resumed > 0 {
		r = wire.Varint(r, runResume, 1)
	}
	w.record(s, recordRun, r)

	if text, err := os.ReadFile(filepath.Join(w.run.Dir, rundir.Config)); err == nil {
		if os.WriteFile(filepath.Join(filepath.Dir(w.f.Name()), "files", wandbConfigName), text, 0o644) == nil {
			w.record(s, recordFiles, wire.Bytes(nil, filesItem, wire.Text(nil, filePath, wandbConfigName)))
		}
	}
}

func (w *wandb) finish(_ context.Context, end End) error {
	if w.f == nil {
		return nil
	}
	err := w.write(func(s *wandbState) {
		if s.row != nil {
			w.history(s)
		}
		w.summarize(s)
		exit := wire.Varint(nil, exitCode, uint64(end.Code))
		w.record(s, recordExit, wire.Varint(exit, exitRuntime, uint64(time.Since(w.run.Started).Seconds())))
	})
	return errors.Join(err, w.f.Sync(), w.f.Close())
}
