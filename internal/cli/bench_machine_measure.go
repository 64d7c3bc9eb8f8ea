package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"trireme/internal/bench"
	"trireme/parallel"
	"trireme/planner"
	"trireme/tensor"
)

func (f *benchMachineFlags) measure(ctx context.Context, stderr io.Writer) (m planner.Machine, err error) {
	cores := runtime.GOMAXPROCS(0)
	m = planner.Machine{
		Schema: planner.MachineSchema, Processor: processorName(), Cores: cores, Date: time.Now().UTC().Format(time.RFC3339),
		Compute: map[string]planner.Compute{}, Transports: map[string]planner.Transport{},
	}
	if m.Load, err = otherWork(ctx); err != nil {
		return m, err
	}
	if m.Load != "" {
		fmt.Fprintf(stderr, "note: other programs use %s; they lower these rates\n", m.Load)
	}
	self := selfProgram{stderr: stderr}
	if self.path, err = os.Executable(); err != nil {
		return m, err
	}
	for _, d := range f.dtypes {
		fmt.Fprintf(stderr, "products and steps in %s\n", d)
		if m.Compute[d], err = f.compute(ctx, self, d, cores); err != nil {
			return m, err
		}
	}
	fmt.Fprintln(stderr, "memory")
	for n := 1; n <= cores; n++ {
		m.Memory = append(m.Memory, bench.CopyBandwidth(n))
	}
	for _, name := range []string{"shm", "tcp"} {
		if cores < 2 || name == "shm" && runtime.GOOS != "linux" {
			continue
		}
		fmt.Fprintf(stderr, "collectives over %s\n", name)
		if m.Transports[name], err = f.transport(ctx, self, name); err != nil {
			return m, err
		}
	}
	fmt.Fprintln(stderr, "disk")
	path, err := planner.MachinePath()
	if err != nil {
		return m, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return m, err
	}
	size := max(1<<20, int(f.seconds*(256<<20)))
	m.Disk.Write, m.Disk.Read, err = bench.DiskBandwidth(filepath.Dir(path), min(size, 1<<30))
	return m, err
}

// referenceStep is the model whose step, besides its products, gives the rates of operands.
const referenceStep = "A"

// compute measures one type.
func (f *benchMachineFlags) compute(ctx context.Context, self selfProgram, dtype string, cores int) (planner.Compute, error) {
	dt, _ := tensor.ParseDType(dtype) // checked
	o := bench.StepOptions{Config: referenceStep, Strategy: "full_shard", Precision: parallel.Precision{Param: dt}}
	steps := max(1, int(10*f.seconds))
	c := planner.Compute{}
	work, err := referenceWork(ctx, o)
	if err != nil {
		return c, err
	}
	var alone stepSeconds
	for _, threads := range []int{1, cores} {
		products, err := f.products(ctx, dt, threads)
		if err != nil {
			return c, err
		}
		step, err := self.steps(ctx, dtype, threads, steps, 1)
		if err != nil {
			return c, err
		}
		c.All = ratesOf(work, products, step)
		if threads == 1 {
			c.One, alone = c.All, step
		}
	}
	if cores == 1 {
		c.Beside = 1
		return c, nil
	}
	beside, err := self.steps(ctx, dtype, 1, steps, cores)
	c.Beside = min(1, alone.all/max(beside.all, 1e-9))
	return c, err
}

// ratesOf returns the rates of a step: products at their rate, the optimizer's seconds for state, and the rest for
// other operands. If products alone explain the step, it keeps a tenth for the rest.
func ratesOf(w planner.Work, products float64, step stepSeconds) planner.Rates {
	flops, compute := w.Products+w.Attention, step.all-step.optimizer
	rest := max(compute-flops/products, compute/10)
	return planner.Rates{Products: flops / (compute - rest), Operands: w.Bytes / rest, State: w.State / step.optimizer}
}

func referenceWork(ctx context.Context, o bench.StepOptions) (planner.Work, error) {
	s := bench.StepConfigs[o.Config]
	config, err := s.Config()
	if err != nil {
		return planner.Work{}, err
	}
	p, err := planner.Job{Config: o.TrainConfig(), Model: config, Ranks: 1, Positions: s.T}.Run(ctx, 0)
	return p.Work, err
}

// productShapes are layers with many rows and narrow weights, and with few rows and wide weights.
var productShapes = []bench.GEMMShape{{M: 2048, K: 512, N: 1376}, {M: 512, K: 768, N: 3072}}

// products returns FLOP/s of the products of layers: forward and both gradients.
func (f *benchMachineFlags) products(ctx context.Context, dt tensor.DType, threads int) (float64, error) {
	var shapes []bench.GEMMShape
	for _, shape := range productShapes {
		for _, s := range []bench.GEMMShape{{Trans: true}, {DX: true}, {DW: true}} {
			s.M, s.K, s.N = shape.M, shape.K, shape.N
			shapes = append(shapes, s)
		}
	}
	r, err := bench.GEMM(ctx, bench.GEMMOptions{Threads: threads, DType: dt, Shapes: shapes, Time: time.Duration(f.seconds / 3 * float64(time.Second))})
	if err != nil {
		return 0, err
	}
	inverse := 0.0
	for _, s := range shapes {
		inverse += 1 / r.GFLOPS[s.String()].Median
	}
	return 1e9 * float64(len(shapes)) / inverse, nil
}

// transport measures collectives between two processes.
func (f *benchMachineFlags) transport(ctx context.Context, self selfProgram, name string) (t planner.Transport, err error) {
	var r collectivesReport
	if err := self.object(ctx, &r, "bench", "collectives", "--nproc=2", "--transport="+name, "--kib=64,8192", "--seconds="+fmt.Sprint(f.seconds/4), "--json"); err != nil {
		return t, err
	}
	t = planner.Transport{Ranks: r.World, Ops: map[string]planner.Link{}}
	share := float64(r.World-1) / float64(r.World)
	for op, suffix := range map[string]string{"all_gather": "_total", "reduce_scatter": "_total", "all_reduce": ""} {
		sent := share
		if op == "all_reduce" {
			sent *= 2
		}
		small, large := r.Res[op+"_64KiB"+suffix], r.Res[op+"_8192KiB"+suffix]
		t.Ops[op] = planner.FitLink(sent*(64<<10), sent*(8<<20), small.Us/1e6, large.Us/1e6)
	}
	return t, nil
}
