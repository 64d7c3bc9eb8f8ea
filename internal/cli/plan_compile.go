package cli

import (
	"context"
	"fmt"
	"io"

	"trireme/device"
	"trireme/planner"
)

// compiledReport has the memory that a compiler allocates for one rank, in bytes: of the program with the
// highest peak, and of each program.
type compiledReport struct {
	Target string `json:"target"`
	Memory int64  `json:"target_memory"`
	compiledMemory
	Programs []compiledProgram `json:"programs"`
}

type compiledMemory struct {
	Peak        int64 `json:"peak"` // with the state that only other programs use
	Arguments   int64 `json:"arguments"`
	Temporaries int64 `json:"temporaries"`
	Outputs     int64 `json:"outputs"`
	Alias       int64 `json:"alias"` // of outputs: in the memory of arguments
}

type compiledProgram struct {
	Name       string `json:"program"`
	Operations int    `json:"operations"`
	compiledMemory
	Collectives int     `json:"collectives"`
	Hidden      float64 `json:"hidden_communication"` // share of the bytes that move while matrix products run
	Seconds     float64 `json:"compile_seconds"`
}

// openTarget finds the compiler of --compile; nil without it.
func (f *planFlags) openTarget(j planner.Job) (*device.Target, error) {
	if f.target == "" {
		return nil, nil
	}
	t, err := device.OpenTarget(device.CompilerOptions{Target: f.target, Ranks: j.Ranks, Plugin: j.Config.Device.Plugin, CUDADir: f.cudaDir})
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	return t, nil
}

// compile compiles a job for a target and reports progress on stderr.
func compile(ctx context.Context, stderr io.Writer, j planner.Job, t *device.Target) (*compiledReport, error) {
	programs, err := j.Compile(ctx, t, func(name string, operations int) {
		fmt.Fprintf(stderr, "compiling the program of the %s (%s) for %s ...\n", name, number(int64(operations), "operation"), t.Name)
	})
	if err != nil {
		return nil, err
	}
	r := &compiledReport{Target: t.Name, Memory: t.Memory}
	for _, p := range programs {
		m := compiledMemory{p.Peak, p.Arguments, p.Temporaries, p.Outputs, p.Alias}
		r.Programs = append(r.Programs, compiledProgram{p.Name, p.Operations, m, len(p.Collectives), p.Hidden(), p.Seconds})
		if m.Peak > r.Peak {
			r.compiledMemory = m
		}
	}
	return r, nil
}

// print prints a table of the programs. "hidden" is the share of communication.
func (r *compiledReport) print(w io.Writer, planned int64) error {
	fmt.Fprintf(w, "\ncompiled for %s of %s:\n", r.Target, device.Bytes(r.Memory).Binary())
	t := columns(w)
	fmt.Fprintln(t, "program of the\targuments\ttemporaries\toutputs\tin place\tpeak\tof the plan\thidden\tcompile time\t")
	for _, p := range r.Programs {
		fmt.Fprintf(t, "%s\t", p.Name)
		for _, n := range []int64{p.Arguments, p.Temporaries, p.Outputs, p.Alias, p.Peak} {
			fmt.Fprintf(t, "%s\t", device.Bytes(n).Binary())
		}
		hidden := "-"
		if p.Collectives > 0 {
			hidden = fmt.Sprintf("%.0f%%", 100*p.Hidden)
		}
		fmt.Fprintf(t, "%.0f%%\t%s\t%.1f s\t\n", 100*float64(p.Peak)/float64(max(1, planned)), hidden, p.Seconds)
	}
	return t.Flush()
}
