package uitest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"trireme/internal/tracefile"
	"trireme/trace"
)

// WriteTrace writes a trace of the given ranks, steps and layers to the run's directory. Rank slow takes longer.
func WriteTrace(dir string, ranks, steps, layers, slow int) (err error) {
	t := &tracefile.Trace{}
	for k := range ranks {
		t.Add(tracefile.Rank{Rank: k, Host: "n0", PID: 4000 + k, Spans: spans(steps, layers, k == slow, slow >= 0)})
	}
	dir = filepath.Join(dir, "trace")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("steps-10-%d.perfetto-trace", 9+steps)))
	if err != nil {
		return err
	}
	return errors.Join(t.WritePerfetto(f), f.Close())
}

// spans are those of a rank: each layer is gathered a layer ahead, and reduced behind its backward.
func spans(steps, layers int, slow, waits bool) (out []trace.Span) {
	const ms = 1_000_000
	unit := int64(2 * ms)
	if slow {
		unit = 3 * ms
	}
	now := int64(0)
	for step := int64(10); step < int64(10+steps); step++ {
		start := now
		add := func(s trace.Span, length int64) {
			s.Start, s.End, s.Step = now, now+length, step
			out = append(out, s)
			now += length
		}
		comm := func(kind trace.Kind, name string, at, length int64) {
			out = append(out, trace.Span{Start: at, End: at + length, Ready: at + length/3, Step: step, Stream: trace.Comm, Kind: kind, Unit: name, Axis: "shard", Bytes: 4 << 20})
		}
		at := len(out)
		out = append(out, trace.Span{})
		add(trace.Span{Kind: trace.Data}, ms/4)
		for l := range layers {
			comm(trace.AllGather, fmt.Sprintf("layers.%d", l), now, unit/3)
			add(trace.Span{Kind: trace.Forward, Unit: fmt.Sprintf("layers.%d", l)}, unit)
		}
		for l := layers - 1; l >= 0; l-- {
			name := fmt.Sprintf("layers.%d", l)
			add(trace.Span{Kind: trace.Backward, Unit: name}, 2*unit)
			comm(trace.ReduceScatter, name, now, unit/2)
		}
		if waits && !slow {
			add(trace.Span{Kind: trace.Wait, Unit: "layers.0", Axis: "shard", Op: "reduce_scatter"}, int64(layers)*3*ms)
		}
		add(trace.Span{Kind: trace.Optimizer}, 2*ms)
		out[at] = trace.Span{Start: start, End: now, Step: step, Kind: trace.Step}
	}
	return out
}
