package trackers

import (
	"context"
	_ "embed"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"trireme/monitor"
)

// prometheus serves the metrics to Prometheus. Reading them never waits for a reader.
type prometheus struct {
	*metrics
	server *http.Server
}

var _ monitor.Sink = (*prometheus)(nil)

// listen starts to serve at addr. An address without a host is loopback.
func listen(addr string, run Run) (*prometheus, error) {
	if strings.HasPrefix(addr, ":") {
		addr = "127.0.0.1" + addr
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	p := &prometheus{metrics: newMetrics(run)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", p.serve)
	mux.HandleFunc("GET /grafana.json", dashboard)
	p.server = &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	go p.server.Serve(l)
	run.note("prometheus: metrics at http://%s/metrics", l.Addr())
	return p, nil
}

// Note does nothing.
func (p *prometheus) Note(string) error { return nil }

// Close stops serving.
func (p *prometheus) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := p.server.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return p.server.Close()
}

func (p *prometheus) serve(w http.ResponseWriter, r *http.Request) {
	open := strings.Contains(r.Header.Get("Accept"), "application/openmetrics-text")
	if open {
		w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
	} else {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	}
	w.Write(expose(p.read(), open))
}

// grafana is a dashboard of Grafana for these metrics.
//
//go:embed grafana.json
var grafana []byte

func dashboard(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(grafana)
}

// prometheusName is the metric's name with its unit: trireme_step_duration_seconds, without _total.
func (m *metric) prometheusName() string {
	name := strings.ReplaceAll(m.name, ".", "_")
	switch m.unit {
	case "s":
		name += "_seconds"
	case "By":
		name += "_bytes"
	}
	if m == mRun {
		name += "_info"
	}
	return name
}

// expose formats metrics as OpenMetrics 1.0, or as Prometheus's older text format 0.0.4, in which a counter's
// heading has the suffix _total.
func expose(families []family, open bool) []byte {
	var b []byte
	for _, f := range families {
		name := f.prometheusName()
		heading, sample := name, name
		if f.kind == counter {
			sample += "_total"
			if !open {
				heading = sample
			}
		}
		b = append(b, "# TYPE "+heading+" "+[...]string{"gauge", "counter", "histogram"}[f.kind]+"\n# HELP "+heading+" "+f.help+"\n"...)
		for _, p := range f.points {
			if f.kind == histogram {
				b = buckets(b, name, f.metric, p)
				continue
			}
			b = appendSample(b, sample, f.keys, p.labels, p.value)
		}
	}
	if open {
		b = append(b, "# EOF\n"...)
	}
	return b
}

func buckets(b []byte, name string, m *metric, p point) []byte {
	n := int64(0)
	for i, count := range p.counts {
		n += count
		limit := "+Inf"
		if i < len(bounds) {
			limit = formatFloat(bounds[i])
		}
		b = appendSample(b, name+"_bucket", append(m.keys[:len(m.keys):len(m.keys)], "le"), append(p.labels[:len(p.labels):len(p.labels)], limit), float64(n))
	}
	b = appendSample(b, name+"_sum", m.keys, p.labels, p.value)
	return appendSample(b, name+"_count", m.keys, p.labels, float64(n))
}

var labelEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func appendSample(b []byte, name string, keys, labels []string, v float64) []byte {
	b = append(b, name...)
	for i, k := range keys {
		between := ","
		if i == 0 {
			between = "{"
		}
		b = append(b, between+k+`="`+labelEscaper.Replace(strings.ToValidUTF8(labels[i], "?"))+`"`...)
	}
	if len(keys) > 0 {
		b = append(b, '}')
	}
	return append(append(append(b, ' '), formatFloat(v)...), '\n')
}

// formatFloat formats a value; NaN and +Inf as both formats write them.
func formatFloat(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
