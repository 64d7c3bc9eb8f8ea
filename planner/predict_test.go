package planner

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"trireme/model"
	"trireme/model/llama"
	"trireme/train"
)

func predicted(t *testing.T, strategy string, accumulation int) Job {
	t.Helper()
	b, err := json.Marshal(llama.Config{
		Architectures: []string{"LlamaForCausalLM"}, ModelType: "llama", HiddenAct: "silu", VocabSize: 64, HiddenSize: 32, IntermediateSize: 64,
		NumHiddenLayers: 3, NumAttentionHeads: 2, NumKeyValueHeads: 2, HeadDim: 16, RMSNormEps: 1e-5, RopeTheta: 10000, MaxPositionEmbeddings: 16, InitializerRange: 0.02,
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Registry{llama.Family}.ParseConfig("test", b)
	if err != nil {
		t.Fatal(err)
	}
	c := train.Default()
	c.Parallel.Strategy = strategy
	c.Training.MicroBatchSize, c.Training.GradientAccumulationSteps = 2, accumulation
	return Job{Config: c, Model: m, Ranks: 1, Positions: 16}
}

// hardware has round rates; slower links by factor, with or without overlap.
func hardware(products, bandwidth float64, overlaps bool) Hardware {
	return Hardware{
		Rates:    func(int) Rates { return Rates{products, products, products} },
		Link:     func(string, int, bool, int) Link { return Link{1e-6, bandwidth} },
		Overlaps: func(int) bool { return overlaps }, Local: 8,
	}
}

// One rank's step is its products and operands at their rates, with nothing to communicate.
func TestPredictOneRank(t *testing.T) {
	j := predicted(t, "no_shard", 1)
	p, err := j.Run(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if p.Work.Products <= 0 || p.Work.Attention <= 0 || p.Work.Bytes <= 0 || p.Work.State <= 0 || p.Work.Calls <= 0 || p.Work.Products >= p.Executed {
		t.Fatalf("work %+v of %v FLOPs executed", p.Work, p.Executed)
	}
	got, err := j.Predict(t.Context(), hardware(1e9, 1e9, true))
	if err != nil {
		t.Fatal(err)
	}
	want := (p.Work.Products + p.Work.Attention + p.Work.Bytes + p.Work.State) / 1e9
	if math.Abs(got.Step-want) > 1e-12 || got.Comm != 0 || got.Overlap() != 1 || math.Abs(got.Tokens-32/want) > 1e-6 {
		t.Errorf("%+v, want a step of %v s", got, want)
	}
}

// Operands grow with the rows of a micro-batch; parameters, gradients and optimizer state do not. AdamW reads and
// writes parameters and two moments and reads gradients, which the norm reads too.
func TestWorkSplit(t *testing.T) {
	works := map[int]Work{}
	parameters := 0.0
	for _, rows := range []int{2, 8} {
		j := predicted(t, "no_shard", 1)
		j.Config.Training.MicroBatchSize = rows
		p, err := j.Run(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		works[rows], parameters = p.Work, float64(p.Parameters)
	}
	if few, many := works[2], works[8]; few.State != many.State || many.Bytes < 3*few.Bytes {
		t.Errorf("with 2 rows %+v, with 8 %+v", few, many)
	}
	if got := works[2].State / (4 * parameters); got < 8 || got > 8.5 {
		t.Errorf("state is read and written %.2f times a parameter, want 8", got)
	}
}

// Communication is exposed where no core is free for it, hidden behind slow computation, and exposed beside fast
// computation. A slower link never makes a step faster.
func TestPredictOverlap(t *testing.T) {
	for _, strategy := range []string{"no_shard", "zero_1", "shard_grad_op", "full_shard"} {
		j := predicted(t, strategy, 1)
		j.Ranks = 2
		predict := func(products, bandwidth float64, overlaps bool) Prediction {
			p, err := j.Predict(t.Context(), hardware(products, bandwidth, overlaps))
			if err != nil {
				t.Fatal(err)
			}
			if p.Exposed < 0 || p.Exposed > p.Comm+1e-15 || math.Abs(p.Step-p.Products-p.Operands-p.Exposed) > 1e-12 {
				t.Fatalf("%s: %+v", strategy, p)
			}
			return p
		}
		if p := predict(1e9, 1e9, false); p.Exposed != p.Comm || p.Comm == 0 {
			t.Errorf("%s without a free core: %+v", strategy, p)
		}
		if p := predict(1e9, 1e9, true); p.Exposed > 0.6*p.Comm {
			t.Errorf("%s, slow computation: %.0f%% exposed", strategy, 100*p.Exposed/p.Comm)
		}
		if p := predict(1e15, 1e6, true); p.Exposed < 0.99*p.Comm || !strings.Contains(p.Limit, " over ") {
			t.Errorf("%s, slow link: %.0f%% exposed, limited by %s", strategy, 100*p.Exposed/p.Comm, p.Limit)
		}
		last := 0.0
		for bandwidth := 1e12; bandwidth > 1e6; bandwidth /= 10 {
			if p := predict(1e11, bandwidth, true); p.Step < last {
				t.Errorf("%s: %v s at %v bytes/s, less than at ten times that", strategy, p.Step, bandwidth)
			} else {
				last = p.Step
			}
		}
	}
}

// The work of many micro-batches is that of a simulation of all of them.
func TestPredictAccumulation(t *testing.T) {
	j := predicted(t, "full_shard", 9)
	j.Ranks = 2
	short, err := j.Run(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	full, err := j.run(t.Context(), 0, 9)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(short.Work.Bytes/full.Work.Bytes-1) > 1e-9 || math.Abs(short.Work.Products/full.Work.Products-1) > 1e-9 {
		t.Errorf("extrapolated %+v, simulated %+v", short.Work, full.Work)
	}
}

// Efficiency is relative to one rank, with rows per rank constant.
func TestPredictWorlds(t *testing.T) {
	rows, err := predicted(t, "full_shard", 2).PredictWorlds(t.Context(), hardware(1e9, 1e8, true), []int{1, 2, 4, 16})
	if err != nil {
		t.Fatal(err)
	}
	if rows[0].Efficiency != 1 || rows[1].Efficiency >= 1 || rows[3].World != 16 {
		t.Errorf("%+v", rows)
	}
	for _, r := range rows {
		if got := r.Tokens * r.Step; math.Abs(got-float64(64*r.World)) > 1e-6 {
			t.Errorf("%d ranks: %v tokens", r.World, got)
		}
	}
}

// Ranks that share cores slow each other down; all cores together have the measured rate.
func TestMachineHardware(t *testing.T) {
	m := Machine{
		Schema: MachineSchema, Cores: 4, Compute: map[string]Compute{"float32": {One: Rates{100, 10, 5}, All: Rates{300, 20, 6}, Beside: 0.8}},
		Transports: map[string]Transport{"shm": {2, map[string]Link{"all_gather": {1e-6, 1e9}}}, "tcp": {2, map[string]Link{"all_gather": {1e-5, 1e8}}}},
	}
	h, err := m.Hardware("float32", 1, "shm", nil)
	if err != nil {
		t.Fatal(err)
	}
	if a, b, c := h.Rates(1).Products, h.Rates(4).Products, h.Rates(8).Products; a != 100 || math.Abs(b-80) > 1e-9 || math.Abs(c-40) > 1e-9 {
		t.Errorf("products of a rank alone, among 4 and among 8: %v, %v, %v", a, b, c)
	}
	if h.Overlaps(4) || !h.Overlaps(3) || h.Local != 4 {
		t.Error("communication overlaps while a core is free")
	}
	if l := h.Link("all_gather", 4, false, 1); l.Latency != 2e-6 || l.Bandwidth != 1e9 {
		t.Errorf("link %+v", l)
	}
	if h, err = m.Hardware("float32", 4, "shm", nil); err != nil || math.Abs(h.Rates(1).Products-300) > 1e-9 {
		t.Errorf("all cores: %v, %v", h.Rates(1), err)
	}
	if _, err := m.Hardware("float16", 1, "shm", nil); err == nil {
		t.Error("a type that was not measured has rates")
	}
	if _, err := m.Hardware("float32", 1, "mpi", nil); err == nil {
		t.Error("a transport that was not measured has rates")
	}
}

// A ring over hosts has all ports of a host, up to the link in the host; groups of a rank per host share them.
func TestSheetPorts(t *testing.T) {
	g := GPU{Name: "g", BFloat16: 1, Memory: 1}
	link, port := SheetLink{"in", 100, 1, ""}, SheetLink{"out", 10, 2, ""}
	for _, test := range []struct {
		ports, groups int
		want          float64
	}{{1, 1, 10}, {8, 1, 80}, {16, 1, 100}, {8, 8, 10}, {1, 8, 1.25}} {
		l := SheetHardware(g, "bfloat16", 8, link, port, test.ports).Link("all_gather", 16, true, test.groups)
		if math.Abs(l.Bandwidth-Reach.Link*test.want) > 1e-9 || l.Latency != 8 {
			t.Errorf("%d ports, %d groups: %+v, want %v of %v", test.ports, test.groups, l, Reach.Link, test.want)
		}
	}
	if l := SheetHardware(g, "bfloat16", 8, link, port, 1).Link("all_gather", 8, false, 1); l.Bandwidth != Reach.Link*100 {
		t.Errorf("in a host: %+v", l)
	}
}

// Stored rates load again; damaged files are errors.
func TestMachineFile(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	if m, err := LoadMachine(); m != nil || err != nil {
		t.Fatalf("rates before measuring: %v, %v", m, err)
	}
	want := Machine{Schema: MachineSchema, Cores: 2, Compute: map[string]Compute{"float32": {Rates{1, 2, 3}, Rates{4, 5, 6}, 0.5}}, Transports: map[string]Transport{"shm": {2, map[string]Link{"all_gather": {0, 5}}}}}
	if _, err := want.Store(); err != nil {
		t.Fatal(err)
	}
	got, err := LoadMachine()
	if err != nil || got.Compute["float32"] != want.Compute["float32"] || got.Transports["shm"].Ops["all_gather"] != (Link{0, 5}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzParseMachine(f *testing.F) {
	f.Add([]byte(`{"schema":"trireme.bench.machine/2","cores":2,"compute":{"float32":{"one_thread":{"products_flops":1,"operand_bytes_per_second":1,"state_bytes_per_second":1},"all_cores":{"products_flops":1,"operand_bytes_per_second":1,"state_bytes_per_second":1},"beside":1}}}`))
	f.Add([]byte(`{"schema":"trireme.bench.machine/2","cores":0}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMachine(b)
		if err != nil {
			return
		}
		for dt, c := range m.Compute {
			if !(c.One.Products > 0 && c.All.Operands > 0 && c.All.State > 0 && c.Beside > 0) || m.Cores < 1 {
				t.Errorf("%s: %+v", dt, c)
			}
		}
	})
}

// Data sheets have sources, positive rates and links that exist.
func TestSheets(t *testing.T) {
	for _, g := range GPUs {
		if _, err := ParseLink(g.Link); err != nil || g.Source == "" || g.Float32 <= 0 || g.BFloat16 < g.Float32 || g.Memory < 1e11 || g.Capacity < 1e9 {
			t.Errorf("%+v: %v", g, err)
		}
		if own, err := ParseGPU(strings.ToUpper(g.Name)); err != nil || own.Name != g.Name {
			t.Errorf("%s: %v", g.Name, err)
		}
	}
	for _, l := range Links {
		if l.Bandwidth < 1e8 || l.Latency <= 0 || l.Source == "" {
			t.Errorf("%+v", l)
		}
	}
	if _, err := ParseGPU("h1000"); err == nil {
		t.Error("h1000 is a GPU")
	}
	if l := FitLink(1e3, 1e6, 11e-6, 1010e-6); math.Abs(l.Latency-10e-6) > 1e-12 || math.Abs(l.Bandwidth-1e9) > 1e-3 {
		t.Errorf("fitted %+v", l)
	}
}
