package monitor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// TensorBoard writes an event file. Tags follow Hugging Face's Trainer (train/loss,
// train/learning_rate, train/grad_norm, train/epoch, eval/loss), with time/, memory/ (bytes), comm/ and
// device/ besides. Values are float32.
type TensorBoard struct {
	f   *os.File
	buf []byte
}

var _ Sink = (*TensorBoard)(nil)

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
	err = t.write(protowire.AppendString(protowire.AppendTag(event(now, 0), 3, protowire.BytesType), "brain.Event:2"))
	if err == nil && resumed > 0 {
		// A session start makes TensorBoard drop events from that step on.
		start := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
		err = t.write(protowire.AppendBytes(protowire.AppendTag(event(now, resumed+1), 7, protowire.BytesType), start))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return t, nil
}

// Record writes one event.
func (t *TensorBoard) Record(r Record) error {
	var s summary
	s.add("train/loss", r.Loss)
	s.add("train/learning_rate", r.LR)
	s.add("train/grad_norm", r.GradNorm)
	if r.LossScale > 0 {
		s.add("train/loss_scale", r.LossScale)
	}
	for _, k := range sortedKeys(r.Means) {
		s.add("train/"+k, r.Means[k])
	}
	if r.Epoch > 0 {
		s.add("train/epoch", r.Epoch)
	}
	if r.EpochLoss != nil {
		s.add("train/epoch_loss", *r.EpochLoss)
	}
	s.add("time/step_seconds", r.StepSeconds)
	s.add("time/samples_per_second", r.SamplesPerSecond())
	s.add("time/tokens_per_second", r.TokensPerSecond())
	s.add("time/label_tokens_per_second", r.LabelTokensPerSecond())
	if r.PeakFLOPS > 0 {
		s.add("time/mfu", r.MFU)
	}
	s.add("time/data_fraction", r.DataFraction)
	if r.WorldSize > 1 {
		s.add("comm/fraction", r.CommFraction)
	}
	for _, k := range sortedKeys(r.Memory) {
		s.add("memory/"+k, float64(r.Memory[k]))
	}
	if r.Resident.Now > 0 {
		s.add("memory/rss", float64(r.Resident.Now))
	}
	if r.Device != nil {
		values := r.Device.values()
		for _, k := range sortedKeys(values) {
			s.add("device/"+k, values[k])
		}
	}
	return t.scalars(r.Time, r.Step, s)
}

// Evaluate writes one event.
func (t *TensorBoard) Evaluate(e Evaluation) error {
	var s summary
	s.add("eval/loss", e.Loss)
	if e.Accuracy != nil {
		s.add("eval/accuracy", *e.Accuracy)
		if e.MacroF1 != nil {
			s.add("eval/macro_f1", *e.MacroF1)
		}
	} else {
		s.add("eval/perplexity", e.Perplexity())
	}
	for _, k := range sortedKeys(e.Means) {
		s.add("eval/"+k, e.Means[k])
	}
	return t.scalars(e.Time, e.Step, s)
}

// Note does nothing.
func (t *TensorBoard) Note(string) error { return nil }

// Close syncs the file to disk.
func (t *TensorBoard) Close() error {
	if err := errors.Join(t.f.Sync(), t.f.Close()); err != nil {
		return fmt.Errorf("monitor: %w", err)
	}
	return nil
}

func (t *TensorBoard) scalars(at time.Time, step int64, s summary) error {
	if at.IsZero() {
		at = time.Now()
	}
	return t.write(protowire.AppendBytes(protowire.AppendTag(event(at, step), 5, protowire.BytesType), s))
}

// event starts an Event: wall_time 1, step 2. file_version is 3, summary 5, session_log 7.
func event(at time.Time, step int64) []byte {
	b := protowire.AppendTag(nil, 1, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, math.Float64bits(float64(at.UnixNano())/1e9))
	if step != 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), uint64(step))
	}
	return b
}

// summary is a Summary: repeated value 1 of tag 1, simple_value 2.
type summary []byte

func (s *summary) add(tag string, v float64) {
	b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), tag)
	b = protowire.AppendFixed32(protowire.AppendTag(b, 2, protowire.Fixed32Type), math.Float32bits(float32(v)))
	*s = protowire.AppendBytes(protowire.AppendTag(*s, 1, protowire.BytesType), b)
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
