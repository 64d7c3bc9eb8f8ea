package bench

import (
	"context"
	"testing"
	"time"

	"trireme/collective"
	"trireme/device"
	"trireme/parallel"
	"trireme/tensor"
	"trireme/trace"
)

// BenchmarkTrace trains with and without a recorder in turn, step by step, and reports what recording costs in percent:
// of the time of a step, by the medians. On a busy machine the difference is noise.
func BenchmarkTrace(b *testing.B) {
	worlds, err := collective.NewLocal(1, collective.Config{})
	if err != nil {
		b.Fatal(err)
	}
	w := worlds[0]
	defer w.Close()
	d, err := device.Config{Name: device.CPU, Threads: 1}.Open(device.Process{}, w.Arena(), 1, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	o := StepOptions{Config: "A", Strategy: "full_shard", Precision: parallel.Precision{Param: tensor.F32, Reduce: tensor.F32, Buffer: tensor.F32}, Threads: 1}
	c := StepConfigs[o.Config]
	a, err := o.build(context.Background(), d, device.World(d, w), c)
	if err != nil {
		b.Fatal(err)
	}
	defer a.Engine.Close()
	batches := c.batches(a.Model.Info(), 0)
	recorder := trace.New(0)
	var times [2][]float64
	step := func(r *trace.Recorder, i int) float64 {
		a.Stepper.SetTrace(r)
		split := newSplitter(r)
		began := time.Now()
		if err := a.Stepper.Step(context.Background(), batches[i%len(batches)], func(int) float64 { return 3e-4 }); err != nil {
			b.Fatal(err)
		}
		a.Stepper.Result()
		split.add()
		return time.Since(began).Seconds()
	}
	step(nil, 0)
	n := 0
	for b.Loop() {
		times[0] = append(times[0], step(nil, n))
		times[1] = append(times[1], step(recorder, n))
		n++
	}
	spans, _, _ := recorder.Since(trace.Cursor{})
	without := Median(times[0])
	b.ReportMetric(100*(Median(times[1])/without-1), "%step")
	b.ReportMetric(float64(len(spans))/float64(n), "spans/step")
	b.ReportMetric(1e3*without, "ms/step")
}
