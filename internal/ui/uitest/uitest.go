// Package uitest writes directories of runs for tests of the web page. Their values are formulas of a seed.
package uitest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"trireme/internal/rundir"
	"trireme/monitor"
	"trireme/trace"
)

// Run describes a run to write. The zero value of a field leaves it out.
type Run struct {
	Name   string
	Seed   uint64
	Steps  int
	Max    int // max_steps
	Ranks  int
	LR     float64
	Slow   int  // this rank, if not 0, takes half as long again
	Small  bool // records have few fields
	Config string
	Exit   *int // nil: it still runs or was killed
	Start  time.Time
	Events []monitor.Event
}

// Write writes the run to a directory, which it makes.
func (r Run) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	start := r.Start
	if start.IsZero() {
		start = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC).Add(time.Duration(r.Seed) * time.Hour)
	}
	card := rundir.Card{Schema: "trireme.run/1", ID: fmt.Sprintf("%016d", r.Seed), Name: r.Name, Parameters: 1816896}
	card.Start = rundir.Start{Version: "test", Command: []string{"trireme", "train", "--config", r.Name + ".yaml"}, Started: start, Exit: r.Exit, World: r.Ranks, Strategy: "full_shard", Device: "cpu", Steps: r.Max}
	if r.Exit != nil {
		end := start.Add(time.Duration(r.Steps) * stepTime)
		card.Ended = &end
	}
	b, err := json.Marshal(card)
	if err != nil {
		return err
	}
	var errs []error
	errs = append(errs, os.WriteFile(filepath.Join(dir, rundir.Identity), b, 0o644))
	if r.Config != "" {
		errs = append(errs, os.WriteFile(filepath.Join(dir, rundir.Config), []byte(r.Config), 0o644))
	}
	errs = append(errs, r.writeRecords(filepath.Join(dir, rundir.Metrics), start))
	for _, e := range r.Events {
		errs = append(errs, monitor.AppendEvent(filepath.Join(dir, rundir.Events), e))
	}
	return errors.Join(errs...)
}

const stepTime = 130 * time.Millisecond

func (r Run) writeRecords(path string, start time.Time) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	var line []byte
	for step := 1; step <= r.Steps; step++ {
		line = append(r.Record(int64(step), start).AppendJSON(line[:0]), '\n')
		w.Write(line) // Flush returns its error
		if every := max(1, r.Steps/40); step%every == 0 && !r.Small {
			e := monitor.Evaluation{Step: int64(step), Time: start.Add(time.Duration(step) * stepTime), Loss: r.loss(step) + 0.08, Tokens: 110617, Seconds: 1.2, WorldSize: r.Ranks}
			w.Write(append(e.AppendJSON(line[:0]), '\n'))
		}
	}
	return errors.Join(w.Flush(), f.Close())
}

// loss is the expected loss of a step.
func (r Run) loss(step int) float64 {
	x := float64(step) / float64(max(1, r.Max))
	return 1.35 + 0.1*math.Abs(math.Log10(r.LR/2e-3)) + 2.6*math.Exp(-9*x*math.Sqrt(r.LR/2e-3)) + 0.35*math.Exp(-2*x)
}

// Record is the record of a step.
func (r Run) Record(step int64, start time.Time) monitor.Record {
	rng := rand.New(rand.NewPCG(r.Seed, uint64(step)))
	x := float64(step) / float64(max(1, r.Max))
	seconds := 0.128 + 0.006*rng.NormFloat64()
	if step%97 == 0 {
		seconds *= 1.8
	}
	rec := monitor.Record{
		Step: step, MaxSteps: int64(r.Max), Time: start.Add(time.Duration(step) * stepTime), Run: fmt.Sprintf("%016d", r.Seed), WorldSize: r.Ranks,
		Loss: r.loss(int(step)) + 0.05*rng.NormFloat64(), GradNorm: 0.5 + 1.2*math.Exp(-8*x) + 0.1*rng.ExpFloat64(),
		LR:      r.LR * min(1, float64(step)/float64(max(1, r.Max/20))) * 0.5 * (1 + math.Cos(math.Pi*min(1, x))),
		Samples: 32, Tokens: 4096, LabelTokens: 4096, StepSeconds: seconds,
	}
	if r.Small {
		return rec
	}
	wait := 0.004 + 0.004*rng.ExpFloat64()
	if r.Slow > 0 && x > 0.3 {
		wait += 0.04
		seconds += 0.04
	}
	rec.StepSeconds, rec.PeakFLOPS, rec.MFU, rec.Epoch = seconds, 463e9, 0.386*0.128/seconds, x*3
	rec.Split = &trace.Split{Data: 0.0008, Forward: 0.036, Backward: 0.064, Optimizer: 0.008, Publish: 0.001, Comm: 0.009, Wait: wait}
	rec.Split.Other = max(0, seconds-0.1188-wait)
	rec.CommSeconds, rec.CommFraction, rec.DataFraction = 0.024, (0.009+wait)/seconds, 0.0008/seconds
	rec.CommOps = map[string]trace.CommOp{
		"all_gather/shard":     {Count: 14, Bytes: 7 << 20, Seconds: 0.013, Exposed: 0.004 + wait/2},
		"reduce_scatter/shard": {Count: 7, Bytes: 7 << 20, Seconds: 0.011, Exposed: 0.005 + wait/2},
	}
	ranks := &monitor.Ranks{}
	for k := range r.Ranks {
		own := 0.112 + 0.004*rng.NormFloat64()
		if r.Slow > 0 && k == r.Slow && x > 0.3 {
			own *= 1.4
		}
		ranks.Own, ranks.Data = append(ranks.Own, own), append(ranks.Data, 0.0008+0.0002*rng.ExpFloat64())
		ranks.Comm, ranks.Save = append(ranks.Comm, max(0, 0.17-own)), append(ranks.Save, 0)
	}
	rec.Ranks, rec.Skew = ranks, 1+0.03*rng.ExpFloat64()
	mib := int64(1 << 20)
	rec.Memory = map[string]int64{"parameters": 4 * mib, "optimizer": 7 * mib, "gradients": 4 * mib, "activations": 2 * mib, "communication": 3 * mib}
	rec.MemoryPeak = map[string]int64{"parameters": 4 * mib, "optimizer": 7 * mib, "gradients": 4 * mib, "activations": (70 + int64(6*rng.Float64())) * mib, "communication": 5 * mib, "total": 92 * mib}
	rec.Resident = monitor.Resident{Now: (140 + int64(20*(1-math.Exp(-5*x)))) * mib, Peak: 165 * mib, Shared: 40 * mib}
	cpu := 1.9 + 0.05*rng.NormFloat64()
	free := 4.2e11
	rec.Host = &monitor.Host{CPU: &cpu, DiskFree: &free}
	return rec
}
