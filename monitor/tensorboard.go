package monitor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"trireme/internal/wire"
)

// TensorBoard writes an event file: scalars (Record.Scalars) as float32, notes and other texts,
// hyper-parameters and histograms.
type TensorBoard struct {
	f       *os.File
	buf     []byte
	step    int64 // of the last record
	session bool  // Params was called, and the run has not ended
}

var (
	_ Sink          = (*TensorBoard)(nil)
	_ HistogramSink = (*TensorBoard)(nil)
)

// eventFiles distinguishes event files of one process in one second.
var eventFiles atomic.Int64

// OpenTensorBoard creates an event file in dir. resumed is the step the run resumes after, 0 if it is
// new: TensorBoard then hides later steps of older files.
func OpenTensorBoard(dir string, resumed int64) (*TensorBoard, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	now := time.Now()
	name := fmt.Sprintf("events.out.tfevents.%d.%s.%d.%d", now.Unix(), host, os.Getpid(), eventFiles.Add(1)-1)
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	t := &TensorBoard{f: f}
	err = t.write(wire.Text(event(now, 0), 3, "brain.Event:2"))
	if err == nil && resumed > 0 {
		// A session start makes TensorBoard drop events from that step on.
		err = t.write(wire.Bytes(event(now, resumed+1), 7, wire.Varint(nil, 1, 1)))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return t, nil
}

// Record writes one event.
func (t *TensorBoard) Record(r Record) error {
	t.step = r.Step
	err := t.scalars(r.Time, r.Step, r.Scalars())
	if err == nil && t.session && r.Step == r.MaxSteps {
		t.session = false
		err = t.endSession(r.Time)
	}
	return err
}

// Evaluate writes one event.
func (t *TensorBoard) Evaluate(e Evaluation) error { return t.scalars(e.Time, e.Step, e.Scalars()) }

// Note writes a text with tag notes at the last record's step.
func (t *TensorBoard) Note(text string) error { return t.Text(time.Now(), t.step, "notes", text) }

// Close syncs the file to disk.
func (t *TensorBoard) Close() error {
	if err := errors.Join(t.f.Sync(), t.f.Close()); err != nil {
		return fmt.Errorf("monitor: %w", err)
	}
	return nil
}

// scalars writes a Summary: values 1 of tag 1 and simple_value 2.
func (t *TensorBoard) scalars(at time.Time, step int64, all []Scalar) error {
	var s []byte
	for _, v := range all {
		s = wire.Bytes(s, 1, wire.Float(wire.Text(nil, 1, v.Tag), 2, float32(v.Value)))
	}
	return t.summary(at, step, s)
}

func (t *TensorBoard) summary(at time.Time, step int64, s []byte) error {
	if at.IsZero() {
		at = time.Now()
	}
	return t.write(wire.Bytes(event(at, step), 5, s))
}

// event starts an Event: wall_time 1, step 2. file_version is 3, summary 5, session_log 7.
func event(at time.Time, step int64) []byte {
	b := wire.Double(nil, 1, float64(at.UnixNano())/1e9)
	if step != 0 {
		b = wire.Varint(b, 2, uint64(step))
	}
	return b
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedCRC is the TFRecord checksum: crc32c rotated right by 15, plus a constant, so that the checksum of
// data with embedded checksums stays sound.
func maskedCRC(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// write writes a record in one write: u64 length, its checksum, payload, its checksum.
func (t *TensorBoard) write(payload []byte) error {
	b := binary.LittleEndian.AppendUint64(t.buf[:0], uint64(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, maskedCRC(b))
	b = append(b, payload...)
	t.buf = binary.LittleEndian.AppendUint32(b, maskedCRC(payload))
	n, err := t.f.Write(t.buf)
	if err != nil {
		// A torn record would hide all later ones.
		if end, serr := t.f.Seek(int64(-n), 1); serr == nil {
			t.f.Truncate(end)
		}
		return fmt.Errorf("monitor: TensorBoard: %w", err)
	}
	return nil
}
