package monitor

import (
	"encoding/binary"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"trireme/internal/wire"
)

// Param is a setting of a run: its key in the configuration, and a bool, a float64 or a string.
type Param struct {
	Key   string
	Value any
}

// Text writes a text, which TensorBoard shows as Markdown, so it is written as a code block.
func (t *TensorBoard) Text(at time.Time, step int64, tag, text string) error {
	return t.summary(at, step, stringValue(tag+"/text_summary", "text", nil, codeBlock(text)))
}

// codeBlock indents the lines of text, so that Markdown shows them as they are.
func codeBlock(text string) string {
	b := []byte("    ")
	for _, c := range []byte(EscapeControl(text)) {
		if b = append(b, c); c == '\n' {
			b = append(b, "    "...)
		}
	}
	return string(b)
}

// Params writes the run's hyper-parameters, with the losses as its metrics.
func (t *TensorBoard) Params(at time.Time, run string, params []Param) error {
	var experiment, start []byte
	for _, p := range params {
		kind, value := uint64(1), []byte(nil) // DATA_TYPE_STRING, BOOL, FLOAT64; google.protobuf.Value
		switch v := p.Value.(type) {
		case bool:
			kind, value = 2, wire.Varint(nil, 4, protowire.EncodeBool(v))
		case float64:
			kind, value = 3, wire.Double(nil, 2, v)
		case string:
			value = wire.Text(nil, 3, EscapeControl(v))
		}
		info := wire.Varint(wire.Text(nil, 1, EscapeControl(p.Key)), 4, kind)
		experiment = wire.Bytes(experiment, 4, info)
		start = wire.Bytes(start, 1, wire.Bytes(wire.Text(nil, 1, EscapeControl(p.Key)), 2, value))
	}
	for _, tag := range []string{"train/loss", "eval/loss"} {
		experiment = wire.Bytes(experiment, 5, wire.Bytes(nil, 1, wire.Text(nil, 2, tag)))
	}
	seconds := float64(at.UnixNano()) / 1e9
	experiment = wire.Double(wire.Text(experiment, 6, run), 3, seconds)
	start = wire.Double(wire.Text(start, 4, run), 5, seconds)
	for _, part := range []struct {
		tag    string
		number protowire.Number
		data   []byte
	}{{"_hparams_/experiment", 2, experiment}, {"_hparams_/session_start_info", 3, start}} {
		if err := t.summary(at, 0, hparams(part.tag, part.number, part.data)); err != nil {
			return err
		}
	}
	t.session = true
	return nil
}

// hparams returns a value of the hparams plug-in: HParamsPluginData with message data as field number.
func hparams(tag string, number protowire.Number, data []byte) []byte {
	return stringValue(tag, "hparams", wire.Bytes(wire.Varint(nil, 1, 0), number, data))
}

// endSession marks the run of Params as complete.
func (t *TensorBoard) endSession(at time.Time) error {
	end := wire.Double(wire.Varint(nil, 1, 1), 2, float64(at.UnixNano())/1e9) // STATUS_SUCCESS
	return t.summary(at, 0, hparams("_hparams_/session_end_info", 4, end))
}

// Histograms writes an event with weights/NAME and gradients/NAME.
func (t *TensorBoard) Histograms(h Histograms) error {
	var s []byte
	for prefix, all := range map[string][]Histogram{"weights/": h.Weights, "gradients/": h.Gradients} {
		for _, one := range all {
			v := wire.Bytes(wire.Text(nil, 1, prefix+EscapeControl(one.Name)), 5, histogram(one))
			s = wire.Bytes(s, 1, v)
		}
	}
	return t.summary(h.Time, h.Step, s)
}

// histogram returns a HistogramProto: min 1, max 2, num 3, sum 4, sum_squares 5, bucket_limit 6, bucket 7.
// The sums are those of the buckets' centers.
func histogram(h Histogram) []byte {
	var limits, counts []byte
	var num, sum, squares float64
	lo, hi := h.Used()
	double := func(b []byte, v float64) []byte { return binary.LittleEndian.AppendUint64(b, math.Float64bits(v)) }
	first, last := 0.0, 0.0
	for i := lo; i < hi; i++ {
		a, b := h.Range(i)
		if i == lo {
			first = a
			limits, counts = double(limits, a), double(counts, 0) // the first bucket has a lower limit
		}
		n, center := float64(h.Counts[i]), (a+b)/2
		num, sum, squares, last = num+n, sum+n*center, squares+n*center*center, b
		limits, counts = double(limits, b), double(counts, n)
	}
	b := wire.Double(wire.Double(nil, 1, first), 2, last)
	b = wire.Double(wire.Double(wire.Double(b, 3, num), 4, sum), 5, squares)
	return wire.Bytes(wire.Bytes(b, 6, limits), 7, counts)
}

// stringValue returns a Summary with one value: tag 1, and for a text tensor 8; metadata 9 names the
// plug-in and its content.
func stringValue(tag, plugin string, content []byte, text ...string) []byte {
	data := wire.Text(nil, 1, plugin)
	if content != nil {
		data = wire.Bytes(data, 2, content)
	}
	v := wire.Bytes(wire.Text(nil, 1, tag), 9, wire.Bytes(nil, 1, data))
	tensor := wire.Varint(nil, 1, 7)                                                           // DT_STRING
	tensor = wire.Bytes(tensor, 2, wire.Bytes(nil, 2, wire.Varint(nil, 1, uint64(len(text))))) // shape [len(text)]
	for _, s := range text {
		tensor = wire.Text(tensor, 8, s)
	}
	return wire.Bytes(nil, 1, wire.Bytes(v, 8, tensor))
}
