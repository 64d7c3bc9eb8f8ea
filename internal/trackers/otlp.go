package trackers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"trireme/internal/wire"
	"trireme/monitor"
)

// otlp sends metrics, and a span per step if traces are on, to an OpenTelemetry collector: OTLP over HTTP in
// protobuf.
type otlp struct {
	*queue
	values *metrics
}

// otlpGather is the time between two exports.
const otlpGather = 10 * time.Second

func newOTLP(c monitor.OTLP, run Run, l limits) *otlp {
	s := &otlpSender{endpoint: newEndpoint(c.URL), run: run, traces: c.Traces, values: newMetrics(run)}
	for _, pair := range strings.Split(run.variable("OTEL_EXPORTER_OTLP_HEADERS"), ",") {
		k, v, ok := strings.Cut(pair, "=")
		if value, err := url.PathUnescape(strings.TrimSpace(v)); ok && err == nil {
			s.header.Set(strings.TrimSpace(k), value)
		}
	}
	l.gather *= otlpGather / usual.gather
	return &otlp{newQueue("otlp", s, run, l), s.values}
}

func (o *otlp) Record(r monitor.Record) error {
	o.values.Record(r)
	return o.queue.Record(r)
}

func (o *otlp) Evaluate(e monitor.Evaluation) error {
	o.values.Evaluate(e)
	return o.queue.Evaluate(e)
}

func (o *otlp) Note(string) error                   { return nil }
func (o *otlp) Histograms(monitor.Histograms) error { return nil }

type otlpSender struct {
	*endpoint
	run    Run
	traces bool
	values *metrics
}

const protobufType = "application/x-protobuf"

// send exports the current metrics, whatever the events, and the spans of their steps.
func (s *otlpSender) send(ctx context.Context, events []event) error {
	if err := s.post(ctx, "/v1/metrics", s.metrics(time.Now())); err != nil {
		return err
	}
	if !s.traces {
		return nil
	}
	var spans []byte
	for _, e := range events {
		if e.record != nil {
			spans = wire.Bytes(spans, 2, s.span(*e.record))
		}
	}
	if len(spans) == 0 {
		return nil
	}
	return s.post(ctx, "/v1/traces", s.export(spans))
}

// post sends a request. A page is the reply of another server at this address. Other replies of 200 are not looked at:
// some collectors do not send the message of the specification.
func (s *otlpSender) post(ctx context.Context, path string, request []byte) error {
	reply, err := s.call(ctx, http.MethodPost, path, protobufType, request)
	if err == nil && bytes.HasPrefix(bytes.TrimSpace(reply), []byte("<")) {
		err = s.foreign(path, fmt.Errorf("it is a page%s", excerpt(s.redacted(reply))))
	}
	return err
}

func (s *otlpSender) finish(context.Context, End) error { return nil }

// export wraps metrics or spans, fields 2 of their scope, as a request: field 1 with the resource 1 and the
// scope's 2.
func (s *otlpSender) export(content []byte) []byte {
	var resource []byte
	for _, kv := range [][2]string{{"service.name", "trireme"}, {"service.instance.id", s.run.ID}, {"trireme.run.name", s.run.Name}} {
		resource = wire.Bytes(resource, 1, attribute(kv[0], textValue(kv[1])))
	}
	scope := append(wire.Bytes(nil, 1, wire.Text(nil, 1, "trireme")), content...)
	return wire.Bytes(nil, 1, wire.Bytes(wire.Bytes(nil, 1, resource), 2, scope))
}

// attribute is a KeyValue.
func attribute(key string, value []byte) []byte { return wire.Bytes(wire.Text(nil, 1, key), 2, value) }

func textValue(v string) []byte { return wire.Text(nil, 1, strings.ToValidUTF8(v, "?")) }

// Values of AggregationTemporality and SpanKind.
const (
	cumulative   = 2
	internalSpan = 1
)

// The fields of a Metric and of its data.
const (
	metricGauge, metricSum, metricHistogram = 5, 7, 9
	numberAttributes, histogramAttributes   = 7, 9
)

// metrics encodes the metrics at a time.
func (s *otlpSender) metrics(now time.Time) []byte {
	var all []byte
	for _, f := range s.values.read() {
		m := wire.Text(wire.Text(nil, 1, f.name), 2, f.help)
		if f.unit != "" {
			m = wire.Text(m, 3, f.unit)
		}
		var data []byte
		field := protowire.Number(metricGauge)
		for _, p := range f.points {
			data = wire.Bytes(data, 1, s.point(f.metric, p, now))
		}
		switch f.kind {
		case counter:
			field, data = metricSum, wire.Varint(wire.Varint(data, 2, cumulative), 3, 1)
		case histogram:
			field, data = metricHistogram, wire.Varint(data, 2, cumulative)
		}
		all = wire.Bytes(all, 2, wire.Bytes(m, field, data))
	}
	return s.export(all)
}

func (s *otlpSender) point(m *metric, p point, now time.Time) []byte {
	b := wire.Fixed64(nil, 3, uint64(now.UnixNano()))
	if m.kind != gauge {
		b = wire.Fixed64(b, 2, uint64(s.run.Started.UnixNano()))
	}
	attributes := protowire.Number(numberAttributes)
	if m.kind == histogram {
		attributes = histogramAttributes
		n := int64(0)
		var counts, limits []byte
		for _, c := range p.counts {
			n += c
			counts = binary.LittleEndian.AppendUint64(counts, uint64(c))
		}
		for _, v := range bounds {
			limits = binary.LittleEndian.AppendUint64(limits, math.Float64bits(v))
		}
		b = wire.Bytes(wire.Bytes(wire.Double(wire.Fixed64(b, 4, uint64(n)), 5, p.value), 6, counts), 7, limits)
	} else {
		b = wire.Double(b, 4, p.value)
	}
	for i, k := range m.keys {
		b = wire.Bytes(b, attributes, attribute(k, textValue(p.labels[i])))
	}
	return b
}

// span encodes a step. Each step is a trace of its own.
func (s *otlpSender) span(r monitor.Record) []byte {
	id := sha256.Sum256(fmt.Appendf(nil, "%s/%d", s.run.ID, r.Step))
	end := r.Time.UnixNano()
	b := wire.Text(wire.Bytes(wire.Bytes(nil, 1, id[:16]), 2, id[16:24]), 5, "step")
	b = wire.Varint(b, 6, internalSpan)
	b = wire.Fixed64(wire.Fixed64(b, 7, uint64(end-int64(r.StepSeconds*1e9))), 8, uint64(end))
	b = wire.Bytes(b, 9, attribute("trireme.step", wire.Varint(nil, 3, uint64(r.Step))))
	for _, v := range r.Scalars() {
		if v.Tag == "train/loss" || strings.HasPrefix(v.Tag, "time/split/") {
			b = wire.Bytes(b, 9, attribute(strings.ReplaceAll(v.Tag, "/", "."), wire.Double(nil, 4, v.Value)))
		}
	}
	return b
}
