package tracefile

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"trireme/trace"
)

const ms = 1_000_000

// sample is a step of two ranks in which rank 1 reaches the collective 5 ms late.
func sample() *Trace {
	const at = 4_531_575_502_908_271 // later than float64 has microseconds for
	rank := func(r int, late int64) Rank {
		start := at + late
		spans := []trace.Span{
			{Start: at, End: at + 30*ms, Kind: trace.Step, Step: 10},
			{Start: at, End: start, Kind: trace.Data, Step: 10},
			{Start: start, End: start + 10*ms, Kind: trace.Forward, Step: 10, Micro: 1, Unit: "layers.0"},
			{Start: start + 10*ms, End: at + 20*ms, Kind: trace.Wait, Step: 10, Unit: "layers.0", Op: "all_reduce", Axis: "data"},
			{Start: start + 10*ms, End: at + 20*ms, Stream: trace.Comm, Kind: trace.AllReduce, Step: 10, Unit: "layers.0", Op: "all_reduce", Axis: "data", Seq: 7, Bytes: 4096, Ready: at + 15*ms},
			{Start: at, End: at + 9*ms, Stream: trace.Loader, Kind: trace.Data, Step: 11, Op: "rows.jsonl"},
			{Start: at + 2*ms, End: at + 12*ms, Stream: trace.Loader, Kind: trace.Tokenize, Step: 11},
		}
		sortSpans(spans)
		return Rank{Rank: r, Host: "n0", PID: 100 + r, ClockOffset: int64(-r), ClockUncertainty: int64(20 * r), Dropped: int64(r), Groups: map[string][]int{"data": {0, 1}}, Spans: spans}
	}
	return &Trace{Ranks: []Rank{rank(0, 0), rank(1, 5*ms)}, Wall: 1_790_857_026_000_000_000}
}

func TestRoundTrip(t *testing.T) {
	for name, write := range map[string]func(*Trace, *bytes.Buffer) error{
		"perfetto": func(t *Trace, b *bytes.Buffer) error { return t.WritePerfetto(b) },
		"chrome":   func(t *Trace, b *bytes.Buffer) error { return t.WriteChrome(b) },
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := write(sample(), &b); err != nil {
				t.Fatal(err)
			}
			got, err := read(&b, name)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(sample(), got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestCollectives(t *testing.T) {
	s := sample()
	all := s.Collectives()
	if len(all) != 1 || all[0].Members[all[0].Last].Rank != 1 {
		t.Fatalf("collectives %+v", all)
	}
	until, ok := all[0].Holds(s, 0)
	if m := all[0].Members[0]; !ok || until-s.Ranks[0].Spans[m.Span].Start != 5*ms {
		t.Errorf("rank 0 is held for %d ns, %v", until-s.Ranks[0].Spans[m.Span].Start, ok)
	}
	if _, ok := all[0].Holds(s, 1); ok {
		t.Error("the last rank is held")
	}
}

func TestChromeArrows(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteChrome(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"ph":"s","cat":"arrow","name":"last arrival","pid":1,"tid":2,"ts":4531575517.908271`,
		`{"ph":"f","cat":"arrow","name":"last arrival","pid":0,"tid":2,"ts":4531575517.908272,"id":1,"bp":"e"}`,
		`"name":"waits for rank 1","pid":0`, `"args":{"name":"rank 1 (n0)"}`, `"args":{"name":"loader 2"}`,
	} {
		if !strings.Contains(b.String(), strings.ReplaceAll(want, "4531575517.90827", "4531575517908.27")) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}

func TestKineto(t *testing.T) {
	tr, err := Read("testdata/kineto")
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.Ranks) != 2 || len(tr.Notes) > 0 {
		t.Fatalf("%d ranks, notes %q", len(tr.Ranks), tr.Notes)
	}
	if first, last, _ := tr.Steps(); first != 2 || last != 3 {
		t.Errorf("steps %d to %d", first, last)
	}
	all := tr.Collectives()
	if len(all) != 2 {
		t.Fatalf("%d collectives", len(all))
	}
	for _, c := range all {
		s := tr.Ranks[0].Spans[c.Members[0].Span]
		if c.Members[c.Last].Rank != 1 || s.Kind != trace.AllReduce || s.Op != "all_reduce" || c.At-s.Start < 5*ms {
			t.Errorf("rank %d reached %+v last, %d ns later", c.Members[c.Last].Rank, s, c.At-s.Start)
		}
	}
}

// nccl is a profile with a device: one kernel beside a collective, and operators of the host that do not count.
const nccl = `{"schemaVersion":1,"distributedInfo":{"backend":"nccl","rank":3,"world_size":4},"baseTimeNanoseconds":1000000000,
"traceEvents":[
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":9,"tid":9,"ts":0,"dur":50},
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#5","pid":9,"tid":9,"ts":0,"dur":1000},
{"ph":"X","cat":"kernel","name":"ampere_sgemm","pid":0,"tid":7,"ts":100,"dur":200.5,"args":{"stream":7}},
{"ph":"X","cat":"cpu_op","name":"aten::add","pid":9,"tid":9,"ts":60,"dur":50},
{"ph":"X","cat":"user_annotation","name":"nccl:all_reduce","pid":9,"tid":9,"ts":60,"dur":50},
{"ph":"X","cat":"python_function","name":"x","pid":9,"tid":9,"ts":60,"dur":50},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)","pid":0,"tid":20,"ts":"200","dur":300,
 "args":{"Collective name":"allreduce","In msg nelems":1024,"Out msg nelems":1024,"dtype":"Float","Process Group Name":"1","Process Group Description":"mesh_shard","Process Group Ranks":"[2, 3]","Seq":12}}
]}`

func TestKinetoDevice(t *testing.T) {
	tr, err := read(strings.NewReader(nccl), "x.json")
	if err != nil {
		t.Fatal(err)
	}
	want := []trace.Span{
		{Start: 1_000_000_000, End: 1_001_000_000, Kind: trace.Step, Step: 5},
		{Start: 1_000_100_000, End: 1_000_300_500, Kind: trace.Program, Step: 5, Op: "ampere_sgemm"},
		{Start: 1_000_200_000, End: 1_000_500_000, Stream: trace.Comm, Kind: trace.AllReduce, Step: 5, Op: "all_reduce", Axis: "shard", Seq: 12, Bytes: 4096},
	}
	if d := cmp.Diff(want, tr.Ranks[0].Spans); d != "" {
		t.Error(d)
	}
	if r := tr.Ranks[0]; r.Rank != 3 || !cmp.Equal(r.Groups["shard"], []int{2, 3}) {
		t.Errorf("rank %d, groups %v", r.Rank, r.Groups)
	}
}

// TestAlignForeign moves the clock of one rank of a profile by a second.
func TestAlignForeign(t *testing.T) {
	dir := t.TempDir()
	for _, r := range []string{"rank0", "rank1"} {
		b, err := os.ReadFile("testdata/kineto/" + r + ".json.gz")
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if _, err := text.ReadFrom(z); err != nil {
			t.Fatal(err)
		}
		b = text.Bytes()
		if r == "rank1" {
			b = bytes.Replace(b, []byte(`"baseTimeNanoseconds": 1790857026000000000`), []byte(`"baseTimeNanoseconds": 1790857027000000000`), 1)
		}
		if err := os.WriteFile(filepath.Join(dir, r+".json"), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	tr, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if o := tr.Ranks[1].ClockOffset; o > -997*ms || o < -1003*ms || len(tr.Notes) != 1 {
		t.Errorf("offset %d, notes %q", o, tr.Notes)
	}
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "no traces") {
		t.Errorf("an empty directory: %v", err)
	}
	var p, c bytes.Buffer
	if err := sample().WritePerfetto(&p); err != nil {
		t.Fatal(err)
	}
	if err := sample().WriteChrome(&c); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"steps-10-10.perfetto-trace": p.Bytes(), "steps-10-10.json": c.Bytes(), "other.txt": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	tr, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sample(), tr); d != "" {
		t.Error(d)
	}
}

func TestInvalid(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WritePerfetto(&b); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":     {"", "the file is empty"},
		"text":      {"hello", "not a trace in Perfetto's format"},
		"cut":       {b.String()[:b.Len()-3], "the file ends within a packet"},
		"json":      {`{"traceEvents":[{"ph":`, "invalid JSON"},
		"no events": {`{"a":1}`, "not a trace"},
		"array":     {`[{"ph":"X"}]`, "not a trace"},
	} {
		if _, err := read(strings.NewReader(c.text), "f"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	var p, c bytes.Buffer
	if err := sample().WritePerfetto(&p); err != nil {
		f.Fatal(err)
	}
	if err := sample().WriteChrome(&c); err != nil {
		f.Fatal(err)
	}
	f.Add(p.Bytes())
	f.Add(c.Bytes())
	f.Add([]byte(nccl))
	f.Add([]byte(`[{"ph":"B","cat":"cpu_op","name":"a","pid":1,"tid":"x","ts":-1e300},{"ph":"E","ts":"3.25"}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, err := read(bytes.NewReader(b), "rank7.json")
		if err != nil {
			return
		}
		var p bytes.Buffer
		if err := tr.WritePerfetto(&p); err != nil {
			t.Fatal(err)
		}
		if err := tr.WriteChrome(&p); err != nil {
			t.Fatal(err)
		}
		tr.Collectives()
	})
}
