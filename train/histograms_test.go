package train_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"trireme/collective"
	"trireme/collective/collectivetest"
	"trireme/device"
	"trireme/internal/backend/record"
	"trireme/model"
	"trireme/model/llama"
	"trireme/monitor"
	"trireme/train"
)

// histogramSink keeps histograms and, as text, records.
type histogramSink struct {
	records
	all []monitor.Histograms
}

func (s *histogramSink) Histograms(h monitor.Histograms) error { s.all = append(s.all, h); return nil }

func (s *histogramSink) bits() (out []string) {
	for _, r := range s.steps {
		out = append(out, fmt.Sprintf("%d %x %x", r.Step, r.Loss, r.GradNorm))
	}
	return out
}

// TestHistograms checks that histograms change no bits, that every number of ranks and strategy counts the same
// elements, and that the counts fit the gradient's norm.
func TestHistograms(t *testing.T) {
	j := newResumable(t, true, false)
	c := j.config
	c.Training.MaxSteps, c.Training.EvalEveryNSteps = 4, 2
	run := func(every, world int, strategy string, open func() (device.Device, error)) *histogramSink {
		t.Helper()
		c := c // of this run
		c.Parallel.Strategy, c.Logging.HistogramsEveryNSteps = strategy, every
		c.OutputDir = t.TempDir()
		k := &histogramSink{}
		meet := collectivetest.NewBootstrap(world)
		collectivetest.Ranks(t, world, func(w collective.World) error {
			deps := train.Deps{Registry: model.Registry{llama.Family}, World: w, ProcessGroup: meet.Rank(w.Rank()), LocalRanks: 1}
			if w.Rank() == 0 {
				deps.Sink = func(int64) (monitor.Sink, error) { return monitor.Multi(nil, k), nil }
			}
			if open != nil {
				d, err := open()
				if err != nil {
					return err
				}
				deps = deps.WithDevice(d)
			}
			r, err := train.Open(context.Background(), c, deps)
			if err != nil {
				return err
			}
			return errors.Join(r.Train(context.Background()), r.Close())
		})
		return k
	}
	without := run(0, 1, "no_shard", nil)
	want := run(2, 1, "no_shard", nil)
	if len(without.all) != 0 || len(want.all) != 2 || want.all[0].Step != 2 || want.all[1].Step != 4 {
		t.Fatalf("%d and %d histograms", len(without.all), len(want.all))
	}
	if !reflect.DeepEqual(without.bits(), want.bits()) {
		t.Errorf("histograms change the run:\n%v\n%v", without.bits(), want.bits())
	}
	for i, h := range want.all {
		low, high := 0.0, 0.0 // of the squared norm
		for _, g := range h.Gradients {
			lo, hi := g.Used()
			for b := lo; b < hi; b++ {
				from, to := g.Range(b)
				if from < 0 {
					from, to = -to, -from
				}
				low, high = low+float64(g.Counts[b])*max(0, from)*max(0, from), high+float64(g.Counts[b])*to*to
			}
		}
		if n := want.steps[2*i+1].GradNorm; low > n*n || high < n*n {
			t.Errorf("step %d: the squared norm %v is not in [%v, %v]", h.Step, n*n, low, high)
		}
	}
	counts := func(all []monitor.Histograms) (out []any) {
		for _, h := range all {
			out = append(out, h.Step, h.Weights, h.Gradients)
		}
		return out
	}
	programs := func() (device.Device, error) {
		cpu, err := device.Open("cpu", device.Options{Reserve: 1 << 28})
		if err != nil {
			return nil, err
		}
		return &programDevice{Backend: record.New(cpu), cpu: cpu}, nil
	}
	for _, to := range []struct {
		world    int
		strategy string
		open     func() (device.Device, error)
	}{{2, "full_shard", nil}, {2, "no_shard", nil}, {4, "shard_grad_op", nil}, {1, "no_shard", programs}} {
		if got := run(2, to.world, to.strategy, to.open); !reflect.DeepEqual(counts(got.all), counts(want.all)) {
			t.Errorf("%d ranks with %s count other elements", to.world, to.strategy)
		}
	}
}
