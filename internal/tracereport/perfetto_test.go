package tracereport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"trireme/internal/tracefile"
)

// perfettoPython returns the Python with Perfetto's package: PERFETTO_PYTHON, or python3. Without it the test skips.
func perfettoPython(t *testing.T) string {
	t.Helper()
	python := os.Getenv("PERFETTO_PYTHON")
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import perfetto.protos.perfetto.trace.perfetto_trace_pb2").CombinedOutput(); err != nil {
		text := fmt.Sprintf("no package perfetto of Python: %v %.80s. try: pip install perfetto protobuf, and PERFETTO_PYTHON=/path/to/python", err, bytes.TrimSpace(out))
		if os.Getenv("PERFETTO_PYTHON") != "" {
			t.Fatal(text)
		}
		t.Skip("SKIPPED: ", text)
	}
	return python
}

// TestPerfetto decodes a trace by Perfetto's own definitions: every field is known, and the totals of its slices are
// those of the report.
func TestPerfetto(t *testing.T) {
	python := perfettoPython(t)
	tr := planned(3, 1, -1)
	tr.Ranks[2].Host, tr.Ranks[2].ClockOffset, tr.Ranks[2].ClockUncertainty = "n1", -5, 7
	tr.Wall = 1_790_857_026_000_000_000
	path := filepath.Join(t.TempDir(), "t.perfetto-trace")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.WritePerfetto(f); err != nil {
		t.Fatal(err)
	}
	f.Close()
	read, err := tracefile.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(read)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, "testdata/decode.py", path).Output()
	if err != nil {
		var stderr []byte
		if e, ok := err.(*exec.ExitError); ok {
			stderr = e.Stderr
		}
		t.Fatalf("%v\n%s", err, stderr)
	}
	var got struct {
		Unknown int
		Arrows  int
		Ranks   map[int]struct {
			Args  map[string]any
			Spans map[string][2]float64
			Held  int
			From  []int
		}
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got.Unknown != 0 || got.Arrows == 0 || len(got.Ranks) != len(r.Ranks) {
		t.Errorf("%d unknown fields, %d arrows, %d ranks", got.Unknown, got.Arrows, len(got.Ranks))
	}
	for _, k := range r.Ranks {
		d := got.Ranks[k.Rank]
		if len(d.Spans) != len(k.Spans) {
			t.Errorf("rank %d: %d kinds of spans, the report has %d", k.Rank, len(d.Spans), len(k.Spans))
		}
		for kind, total := range k.Spans {
			if s := d.Spans[kind]; int(s[0]) != total.Count || math.Abs(s[1]/1e9-total.Seconds) > 1e-9 {
				t.Errorf("rank %d: %s is %v, the report has %+v", k.Rank, kind, s, total)
			}
		}
		for _, from := range d.From {
			if from != 1 {
				t.Errorf("rank %d: an arrow from rank %d", k.Rank, from)
			}
		}
		if held := d.Held > 0; held != (k.Rank != 1) {
			t.Errorf("rank %d: %d parts of collectives held up", k.Rank, d.Held)
		}
	}
	if a := got.Ranks[2].Args; a["host"] != "n1" || a["clock_offset_ns"] != -5.0 || a["clock_uncertainty_ns"] != 7.0 {
		t.Errorf("rank 2 is %v", a)
	}
}
