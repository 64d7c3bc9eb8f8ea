package train_test

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"trireme/collective"
	"trireme/collective/collectivetest"
	"trireme/flight"
	"trireme/model"
	"trireme/model/llama"
	"trireme/monitor"
	"trireme/trace"
	"trireme/train"
)

// timed trains and returns the records of rank 0 and the recorders. enter is called when a rank enters an activity.
func timed(t *testing.T, c train.Config, world int, enter func(rank int, a flight.Activity)) ([]monitor.Record, []*trace.Recorder) {
	t.Helper()
	recorders := make([]*trace.Recorder, world)
	for i := range recorders {
		recorders[i] = trace.New(0)
	}
	worlds, err := collective.NewLocal(world, collective.Config{Trace: func(rank int) *trace.Recorder { return recorders[rank] }})
	if err != nil {
		t.Fatal(err)
	}
	kept := &records{}
	meet := collectivetest.NewBootstrap(world)
	var wg sync.WaitGroup
	for _, w := range worlds {
		wg.Go(func() {
			rank := w.Rank()
			f := flight.New(flight.Identity{Rank: rank, Size: world})
			f.OnEnter(func(a flight.Activity, _ string) { enter(rank, a) })
			deps := train.Deps{
				Registry: model.Registry{llama.Family}, World: w, ProcessGroup: meet.Rank(rank), LocalRanks: world, Recorder: f, Trace: recorders[rank],
			}
			if rank == 0 {
				deps.Sink = func(int64) (monitor.Sink, error) { return kept, nil }
			}
			r, err := train.Open(context.Background(), c, deps)
			if err == nil {
				if err = r.Train(context.Background()); err == nil {
					err = r.Close()
				}
			}
			if err != nil {
				t.Errorf("rank %d: %v", rank, err)
				w.Abort(err)
			}
		})
	}
	wg.Wait()
	for _, w := range worlds {
		w.Close()
	}
	if t.Failed() {
		t.FailNow()
	}
	return kept.steps, recorders
}

// timedConfig trains 6 steps, with a checkpoint and an evaluation after the second and the fourth.
func timedConfig(t *testing.T, strategy string) train.Config {
	j := newResumable(t, false, false)
	c := j.config
	c.Parallel.Strategy, c.Training.MaxSteps, c.Training.EvalEveryNSteps, c.Checkpoint.SaveEveryNSteps = strategy, 6, 2, 2
	return c
}

// TestSplit: the categories of each step sum to its time, on every strategy, and the units are among the spans.
func TestSplit(t *testing.T) {
	for _, strategy := range []string{"ddp", "fsdp"} {
		for _, world := range []int{1, 2} {
			c := timedConfig(t, strategy)
			c.Recompute.Enabled = true
			steps, recorders := timed(t, c, world, func(int, flight.Activity) {})
			if len(steps) != 6 {
				t.Fatalf("%d records", len(steps))
			}
			for _, r := range steps {
				if r.Split == nil || math.Abs(r.Split.Sum()-r.StepSeconds) > 0.01*r.StepSeconds {
					t.Errorf("%s, %d ranks, step %d: split %+v of %v s", strategy, world, r.Step, r.Split, r.StepSeconds)
				}
				if s := r.Split; s.Forward <= 0 || s.Backward <= 0 || s.Recompute <= 0 || s.Optimizer <= 0 || s.Data <= 0 || s.Program != 0 {
					t.Errorf("%s, %d ranks, step %d: split %+v", strategy, world, r.Step, r.Split)
				}
				if hidden := r.CommSeconds - r.Split.Comm - r.Split.Wait; world == 1 && (r.CommOps != nil || r.Ranks != nil) || world == 2 && hidden > r.CommSeconds {
					t.Errorf("%s, %d ranks, step %d: collectives %v, hidden %v, ranks %v", strategy, world, r.Step, r.CommOps, hidden, r.Ranks)
				}
				if between := r.Step == 3 || r.Step == 5; between != (r.SaveSeconds > 0) || between != (r.EvalSeconds > 0) {
					t.Errorf("step %d: %v s of saving and %v s of evaluation before it", r.Step, r.SaveSeconds, r.EvalSeconds)
				}
			}
			last := steps[len(steps)-1]
			if world == 2 {
				count := map[string]int{}
				for k, op := range last.CommOps {
					count[k] = op.Count
				}
				// A gather in forward and in backward, without those that stay; the last all-reduce sums what all need.
				if count["all_reduce/world"] != 1 || count["reduce_scatter/world"] == 0 || strategy == "fsdp" && count["all_gather/shard"] == 0 {
					t.Errorf("%s: %v", strategy, count)
				}
				if n := len(last.Ranks.Own); n != 2 || len(last.Ranks.Save) != 2 || last.Ranks.Own[1] <= 0 || last.Ranks.Own[1] > 2*last.StepSeconds {
					t.Errorf("ranks %+v of a step of %v s", last.Ranks, last.StepSeconds)
				}
			}
			for rank, r := range recorders {
				kinds := map[trace.Kind]int{}
				units := map[string]bool{}
				for _, s := range r.Steps(4, 4) {
					kinds[s.Kind]++
					if s.Kind == trace.Backward {
						units[s.Unit] = true
					}
				}
				for _, k := range []trace.Kind{trace.Step, trace.Data, trace.Forward, trace.Backward, trace.Recompute, trace.Optimizer, trace.Publish, trace.Upload, trace.Checkpoint, trace.Evaluation} {
					if kinds[k] == 0 {
						t.Errorf("%s, rank %d of %d: no span of kind %v: %v", strategy, rank, world, k, kinds)
					}
				}
				if len(units) < 3 {
					t.Errorf("units %v", slices.Sorted(maps.Keys(units)))
				}
			}
		}
	}
}

// TestPlanted plants a delay on rank 1; the record of rank 0 points to it.
func TestPlanted(t *testing.T) {
	const delay = 60 * time.Millisecond
	plant := func(a flight.Activity) func(int, flight.Activity) {
		return func(rank int, entered flight.Activity) {
			if rank == 1 && entered == a {
				time.Sleep(delay)
			}
		}
	}
	s := delay.Seconds()
	t.Run("rank", func(t *testing.T) {
		steps, _ := timed(t, timedConfig(t, "fsdp"), 2, plant(flight.Backward))
		r := steps[3]
		if r.SlowRank != 1 || r.Ranks.Own[1]-r.Ranks.Own[0] < s || r.Ranks.Data[1] > s/2 || r.Split.Wait < s || r.Split.Wait < 4*r.Split.Comm {
			t.Errorf("slow rank %d, ranks %+v, split %+v", r.SlowRank, r.Ranks, r.Split)
		}
		if r.Ranks.Comm[0] < s || r.Ranks.Comm[1] > r.Ranks.Comm[0]/2 {
			t.Errorf("the others should wait, not the slow one: %+v", r.Ranks)
		}
	})
	t.Run("data", func(t *testing.T) {
		steps, _ := timed(t, timedConfig(t, "fsdp"), 2, plant(flight.Loading))
		r := steps[5]
		if r.SlowRank != 1 || r.Ranks.Data[1] < s || r.Ranks.Data[0] > s/2 || r.Split.Wait < s/2 || r.Split.Data > s/2 {
			t.Errorf("slow rank %d, ranks %+v, split %+v", r.SlowRank, r.Ranks, r.Split)
		}
	})
	t.Run("disk", func(t *testing.T) {
		steps, _ := timed(t, timedConfig(t, "fsdp"), 2, plant(flight.Saving))
		r := steps[2] // after the first checkpoint
		if r.SaveSeconds < s || r.Ranks.Save[1] < s || r.Ranks.Save[1] < r.Ranks.Save[0]+s/2 {
			t.Errorf("saving %v s, ranks %+v", r.SaveSeconds, r.Ranks)
		}
		if before := steps[1]; before.SaveSeconds != 0 || before.Ranks.Save[1] != 0 {
			t.Errorf("a step without a checkpoint before it: %v, %+v", before.SaveSeconds, before.Ranks)
		}
	})
}
