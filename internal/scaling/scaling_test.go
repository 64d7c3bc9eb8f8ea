package scaling

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"trireme/monitor"
)

// The causes sum to the lost efficiency for any measurements, in each round and over rounds.
func TestLostSums(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	e := Experiment{Modes: []Mode{Strong, Weak}, DTypes: []string{"float32"}, Strategies: []string{"no_shard", "full_shard"}, Worlds: []int{1, 2, 4}, MicroBatches: 8, PerRank: 2}
	cells := e.Cells()
	for range 200 {
		rounds := make([]map[Trial]Measurement, 1+r.IntN(4))
		for i := range rounds {
			rounds[i] = map[Trial]Measurement{}
			for _, trial := range Trials(cells, i) {
				rounds[i][trial] = Measurement{TokensPerSecond: 1 + 1e4*r.Float64(), Exposed: r.Float64() / 2, Waiting: r.Float64() / 2}
			}
		}
		for _, row := range Rows(cells, rounds) {
			if got, want := row.Lost.Sum(), 100*(1-row.Efficiency); math.Abs(got-want) > 1e-9 {
				t.Fatalf("%s %s on %d: causes sum to %v%%, %v%% are lost", row.Mode, row.Strategy, row.World, got, want)
			}
			if row.World == 1 && (row.Efficiency != 1 || row.Lost != Lost{}) {
				t.Fatalf("one rank: %+v", row)
			}
		}
	}
}

// A rank that takes 1.4 times as long costs its time as waiting, whichever rank it is; a slow link costs its time
// as communication; fewer micro-batches and shared memory cost theirs.
func TestPlantedCauses(t *testing.T) {
	const tokens = 1000
	steps := func(own, comm []float64) Measurement {
		var records []*monitor.Record
		for i := range 6 {
			period := own[0] + comm[0]
			records = append(records, &monitor.Record{Step: int64(i + 1), Tokens: tokens * int64(len(own)), StepSeconds: period, WorldSize: len(own), Loss: 1 / float64(i+1),
				Ranks: &monitor.Ranks{Own: own, Comm: comm}, SlowRank: slowest(own)})
		}
		return Measure(records, 2)
	}
	one := steps([]float64{1}, []float64{0})
	less, beside := one, one
	less.TokensPerSecond, beside.TokensPerSecond = 900, 600
	for _, test := range []struct {
		name                       string
		own, single, share, copies Measurement
		want                       func(Lost) float64
		most                       float64
	}{
		{"slow rank 1", steps([]float64{1, 1.4}, []float64{0.4, 0}), one, one, one, func(l Lost) float64 { return l.Waiting }, 100 * 0.4 / 1.4},
		{"slow rank 0", steps([]float64{1.4, 1}, []float64{0, 0.4}), one, one, one, func(l Lost) float64 { return l.Waiting }, 100 * 0.4 / 1.4},
		{"slow link", steps([]float64{1, 1}, []float64{0.5, 0.5}), one, one, one, func(l Lost) float64 { return l.Communication }, 100 * 0.5 / 1.5},
		{"less work", steps([]float64{1, 1}, []float64{0, 0}), func() Measurement { m := one; m.TokensPerSecond = 1250; return m }(), one, one, func(l Lost) float64 { return l.LessWork }, 20},
		{"shared memory", steps([]float64{5. / 3, 5. / 3}, []float64{0, 0}), one, one, beside, func(l Lost) float64 { return l.MemoryBandwidth }, 40},
		{"nothing known", steps([]float64{2, 2}, []float64{0, 0}), one, one, one, func(l Lost) float64 { return l.Rest }, 50},
	} {
		e, l := attribute(2, test.own, test.single, test.share, test.copies)
		if got := test.want(l); math.Abs(got-test.most) > 1e-9 || math.Abs(l.Sum()-got) > 1e-9 || math.Abs(100*(1-e)-got) > 1e-9 {
			t.Errorf("%s: efficiency %v, %+v, want only %v%%", test.name, e, l, test.most)
		}
	}
	if m := steps([]float64{1, 1.4}, []float64{0.4, 0}); m.SlowRank != 1 {
		t.Errorf("the slowest rank is %d, not 1", m.SlowRank)
	}
}

// Without the times of all ranks, the skew of the record gives the same figures if rank 0 is typical.
func TestSkewOnly(t *testing.T) {
	for _, slow := range []int{0, 1} {
		fraction := 0.4 / 1.4
		if slow == 0 {
			fraction = 0
		}
		exposed, waiting := split(&monitor.Record{WorldSize: 100, StepSeconds: 1.4, CommFraction: fraction, Skew: 1.4, SlowRank: slow})
		if math.Abs(exposed) > 1e-9 || math.Abs(waiting-0.4/1.4) > 1e-9 {
			t.Errorf("rank %d slow: exposed %v, waiting %v", slow, exposed, waiting)
		}
	}
}

func slowest(v []float64) (at int) {
	for i, x := range v {
		if x > v[at] {
			at = i
		}
	}
	return at
}

// Trials of a round are each once, and every round starts with another one.
func TestTrials(t *testing.T) {
	e := Experiment{Modes: []Mode{Strong, Weak}, DTypes: []string{"float32"}, Strategies: []string{"no_shard", "full_shard"}, Worlds: []int{1, 2}, MicroBatches: 2, PerRank: 1}
	first, second := Trials(e.Cells(), 0), Trials(e.Cells(), 1)
	if len(first) != 5 { // one rank with two and with one micro-batch, two at a time, and two strategies on two ranks
		t.Errorf("%d trials: %v", len(first), first)
	}
	if one, two := first[0].String(), (Trial{"float32", "full_shard", 2, 1, 3}).String(); one != "float32 no_shard, world 1, 2 micro-batches per rank" || two != "float32 full_shard, world 2, 1 micro-batch per rank, 3 jobs at the same time" {
		t.Errorf("trials %q, %q", one, two)
	}
	if len(second) != len(first) || second[0] != first[1] || second[len(second)-1] != first[0] {
		t.Errorf("the second round is %v", second)
	}
}

// A different loss in any run with the same rows is reported.
func TestLosses(t *testing.T) {
	e := Experiment{Modes: []Mode{Strong}, DTypes: []string{"float32"}, Strategies: []string{"full_shard"}, Worlds: []int{1, 2}, MicroBatches: 2, PerRank: 1}
	cells := e.Cells()
	round := map[Trial]Measurement{}
	for _, trial := range Trials(cells, 0) {
		round[trial] = Measurement{TokensPerSecond: 1, Losses: []float64{2, 1}}
	}
	if !Rows(cells, []map[Trial]Measurement{round})[1].LossesEqual {
		t.Error("equal losses are not equal")
	}
	m := round[cells[1].Own]
	m.Losses = []float64{2, math.Nextafter(1, 2)}
	round[cells[1].Own] = m
	if Rows(cells, []map[Trial]Measurement{round})[0].LossesEqual {
		t.Error("losses that differ in the last bit are equal")
	}
}

// The report's files are as in testdata. UPDATE=1 rewrites them.
func TestReport(t *testing.T) {
	loss, slow := 2.5, 1
	r := Report{
		Schema: "trireme.bench.scaling/1", Config: "run.yaml", Model: "gpt2 of 4 layers and width 192", Command: "trireme bench scaling --config=run.yaml", Date: "2026-11-22T00:00:00Z",
		Processor: "A <processor>", Cores: 2, System: "linux/amd64", Version: "trireme 1", Transport: "shm", Threads: 1, Tokens: 2048, Steps: 10, Warmup: 2, Rounds: 3,
		Experiment: "strong scaling: 2 micro-batches of up to 2048 tokens per step over all ranks", Notes: []string{"2 cores"},
		Rows: []Row{
			{Mode: Strong, DType: "float32", Strategy: "full_shard", World: 1, Tokens: 1000, Efficiency: 1, EfficiencyMin: 1, EfficiencyMax: 1, Efficiencies: []float64{1}, Memory: 4 << 20, MemoryShare: 1, Loss: &loss, LossesEqual: true},
			{Mode: Strong, DType: "float32", Strategy: "full_shard", World: 2, Tokens: 1800, Predicted: 1710, Efficiency: 0.9, EfficiencyMin: 0.85, EfficiencyMax: 0.95, Efficiencies: []float64{0.85, 0.9, 0.95}, Memory: 2 << 20, MemoryShare: 0.5, Loss: &loss, LossesEqual: true,
				Lost: Lost{Communication: 4, Waiting: 3, LessWork: 2, MemoryBandwidth: 2, Rest: -1}, SlowRank: &slow},
		},
	}
	for name, write := range map[string]func(io.Writer) error{"report.txt": r.Print, "report.md": r.Markdown, "report.svg": r.SVG} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name)
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), want) {
			t.Errorf("%s is\n%s\nnot\n%s", name, b.Bytes(), want)
		}
		if name == "report.svg" {
			if err := xml.Unmarshal(b.Bytes(), new(struct{ XMLName xml.Name })); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}
