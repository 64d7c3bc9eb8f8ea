package cli

import (
	"context"
	"encoding/json"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"trireme/collective"
	"trireme/flight"
	"trireme/tensor"
)

// FaultVar is the variable with a Fault for the trireme of tests.
const FaultVar = "TEST_FAULT"

// Fault is a fault of one rank.
type Fault struct {
	Rank int
	// Kind is sleep, stop or die when the rank enters an activity, or skip or swap collectives of its group
	// operations.
	Kind     string
	Activity string        // where sleep, stop and die are, by name
	After    int64         // number of times that the activity, or the collective, passes before
	For      time.Duration // of a sleep
	Every    bool          // a sleep each time
}

func init() {
	text, ok := os.LookupEnv(FaultVar)
	if !ok {
		return
	}
	var f Fault
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		panic(err)
	}
	if f.Activity != "" {
		faults.recorder = f.recorder
	} else {
		faults.world = f.world
	}
}

func (f *Fault) recorder(rank int, r *flight.Recorder) {
	if rank != f.Rank {
		return
	}
	var passed atomic.Int64
	r.OnEnter(func(a flight.Activity, _ string) {
		if a.String() != f.Activity {
			return
		}
		if n := passed.Add(1) - 1; n < f.After || n > f.After && !f.Every {
			return
		}
		switch f.Kind {
		case "sleep":
			time.Sleep(f.For)
		case "stop":
			syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			time.Sleep(time.Second) // another thread may receive it
		case "die":
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			time.Sleep(time.Second)
		}
	})
}

func (f *Fault) world(rank int, w collective.World) collective.World {
	if rank != f.Rank {
		return w
	}
	return &faultyWorld{World: w, f: f, calls: new(atomic.Int64)}
}

// faultyWorld skips or swaps an operation of its groups.
type faultyWorld struct {
	collective.World
	f     *Fault
	calls *atomic.Int64
}

func (w *faultyWorld) Group(name string, ranks []int) (collective.Group, error) {
	g, err := w.World.Group(name, ranks)
	if err != nil || g == nil {
		return g, err
	}
	return &faultyGroup{Group: g, w: w}, nil
}

type faultyGroup struct {
	collective.Group
	w     *faultyWorld
	later func() error // a swapped operation
}

func (g *faultyGroup) do(op func() error) error {
	n := g.w.calls.Add(1) - 1
	switch {
	case n == g.w.f.After && g.w.f.Kind == "skip":
		return nil
	case n == g.w.f.After && g.w.f.Kind == "swap":
		g.later = op
		return nil
	case g.later != nil:
		later := g.later
		g.later = nil
		if err := op(); err != nil {
			return err
		}
		return later()
	}
	return op()
}

func (g *faultyGroup) AllGather(ctx context.Context, dst, src *tensor.Tensor, tag string) error {
	return g.do(func() error { return g.Group.AllGather(ctx, dst, src, tag) })
}

func (g *faultyGroup) ReduceScatter(ctx context.Context, dst, src *tensor.Tensor, o collective.ReduceOptions, tag string) error {
	return g.do(func() error { return g.Group.ReduceScatter(ctx, dst, src, o, tag) })
}

func (g *faultyGroup) AllReduce(ctx context.Context, t *tensor.Tensor, op collective.Op, tag string) error {
	return g.do(func() error { return g.Group.AllReduce(ctx, t, op, tag) })
}

// SinceProgress returns the time since the last progress of the rank with a state file, now.
func SinceProgress(path string) (time.Duration, bool) {
	s, err := flight.ReadFile(path)
	if err != nil {
		return 0, false
	}
	return time.Since(s.Progress), true
}
