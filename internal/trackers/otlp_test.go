package trackers

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"trireme/monitor"
)

func TestOTLPPackage(t *testing.T) {
	py := python(t, "opentelemetry.proto")
	t.Parallel()
	var mu sync.Mutex
	bodies := map[string][]byte{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		bodies[r.URL.Path] = b
		if r.Header.Get("X-Key") != "a b" || r.Header.Get("Content-Type") != protobufType {
			t.Errorf("%v", r.Header)
		}
	}))
	defer server.Close()
	n := &notes{}
	run := testRun(t, n)
	run.Lookup = func(name string) (string, bool) {
		return map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b"}[name], true
	}
	o := newOTLP(monitor.OTLP{URL: server.URL + "/", Traces: true}, run, quick)
	feed(o)
	o.Close()
	var paths []string
	for _, name := range []string{"/v1/metrics", "/v1/traces"} {
		paths = append(paths, filepath.Join(run.Dir, filepath.Base(name)))
		os.WriteFile(paths[len(paths)-1], bodies[name], 0o644)
	}
	var got [2]map[string]any
	script(t, &got, environment(t), py, "read_otlp.py", paths...)
	text, _ := json.Marshal(got)
	for _, want := range []string{
		`"name":"trireme.step.duration"`, `"unit":"s"`, `"isMonotonic":true`, `"aggregationTemporality":"AGGREGATION_TEMPORALITY_CUMULATIVE"`, `"asDouble":192`, `"count":"3"`, `"sum":0.75`,
		`{"key":"service.instance.id","value":{"stringValue":"abc123"}}`, `{"key":"op","value":{"stringValue":"all_gather"}}`, `"name":"step"`, `"kind":"SPAN_KIND_INTERNAL"`,
		`{"key":"trireme.step","value":{"intValue":"3"}}`, `{"key":"time.split.forward","value":{"doubleValue":0.1}}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if n.text() != "" {
		t.Error(n.text())
	}
}
