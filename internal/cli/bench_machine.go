package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"trireme/internal/bench"
	"trireme/monitor"
	"trireme/parallel"
	"trireme/planner"
	"trireme/tensor"
)

type benchMachineFlags struct {
	seconds float64
	dtypes  []string
	sheets  bool
	json    bool
}

func newBenchMachine() *cobra.Command {
	f := &benchMachineFlags{}
	c := &cobra.Command{
		Use:   "machine",
		Short: "measure this machine's rates, which plan predicts step times from",
		Long: `Measure matrix products and training steps in each type with one thread, with all cores, and with one
job per core at the same time; copies in memory with 1 to n threads; collectives between processes over
shm and tcp; and the disk of the cache directory. The rates are stored in the user's cache directory
(XDG_CACHE_HOME/trireme/machine.json), where "trireme plan" and "trireme bench scaling" read them.
Measure while the machine does nothing else.

--sheets prints the data-sheet rates of GPUs and links that plan has built in, with their sources.`,
		Example: `  trireme bench machine
  trireme bench machine --seconds 0.2 --dtypes float32 --json
  trireme bench machine --sheets`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	c.Flags().Float64Var(&f.seconds, "seconds", 1, "seconds per measurement")
	c.Flags().StringSliceVar(&f.dtypes, "dtypes", []string{"float32", "bfloat16"}, "types of parameters: float32, bfloat16 or float16")
	c.Flags().BoolVar(&f.sheets, "sheets", false, "print the built-in data-sheet rates and stop")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	return c
}

func (f *benchMachineFlags) run(c *cobra.Command) error {
	if f.sheets {
		return f.printSheets(c.OutOrStdout())
	}
	if !(f.seconds > 0) {
		return usage(fmt.Sprintf("--seconds is %v: it must be above 0", f.seconds), "--seconds 1")
	}
	for _, d := range f.dtypes {
		if err := oneOf("dtypes", d, "float32", "bfloat16", "float16"); err != nil {
			return err
		}
	}
	m, err := f.measure(c.Context(), c.ErrOrStderr())
	if err != nil {
		return err
	}
	path, err := m.Store()
	if err != nil {
		return err
	}
	if f.json {
		return writeJSON(c.OutOrStdout(), m)
	}
	if err := printMachine(c.OutOrStdout(), m); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "stored: %s\n", path)
	return err
}

func (f *benchMachineFlags) measure(ctx context.Context, stderr io.Writer) (m planner.Machine, err error) {
	cores := runtime.GOMAXPROCS(0)
	m = planner.Machine{
		Schema: planner.MachineSchema, Processor: processorName(), Cores: cores, Date: time.Now().UTC().Format(time.RFC3339),
		Compute: map[string]planner.Compute{}, Transports: map[string]planner.Transport{},
	}
	if h, ok := otherWork(); ok {
		m.Load = h
		fmt.Fprintf(stderr, "note: other programs keep %s; these rates are theirs too\n", h)
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

// otherWork describes the load of other programs on this machine, if it is noticeable.
func otherWork() (string, bool) {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "", false
	}
	load, err := strconv.ParseFloat(strings.Fields(string(b) + " 0")[0], 64)
	if err != nil || load < 0.5 {
		return "", false
	}
	return fmt.Sprintf("a load of %.1f on %d cores", load, runtime.NumCPU()), true
}

// referenceStep is the model whose step, besides its products, gives the rate of operands.
const referenceStep = "A"

// compute measures one type.
func (f *benchMachineFlags) compute(ctx context.Context, self selfProgram, dtype string, cores int) (planner.Compute, error) {
	dt, _ := tensor.ParseDType(dtype) // checked
	o := bench.StepOptions{Config: referenceStep, Strategy: "full_shard", Precision: parallel.Precision{Param: dt}}
	steps := max(1, int(10*f.seconds))
	c := planner.Compute{}
	var alone float64
	for _, threads := range []int{1, cores} {
		products, err := f.products(ctx, dt, threads)
		if err != nil {
			return c, err
		}
		seconds, err := self.steps(ctx, dtype, threads, steps, 1)
		if err != nil {
			return c, err
		}
		work, err := referenceWork(ctx, o)
		if err != nil {
			return c, err
		}
		r := ratesOf(work, products, seconds)
		if threads == 1 {
			c.One, alone = r, seconds
		}
		c.All = r
	}
	if cores == 1 {
		c.Beside = 1
		return c, nil
	}
	beside, err := self.steps(ctx, dtype, 1, steps, cores)
	c.Beside = min(1, alone/max(beside, 1e-9))
	return c, err
}

// ratesOf divides a step's seconds into products at their rate and the rest. If products alone explain the step, it
// keeps a tenth for the rest.
func ratesOf(w planner.Work, products, seconds float64) planner.Rates {
	flops := w.Products + w.Attention
	rest := max(seconds-flops/products, seconds/10)
	return planner.Rates{Products: flops / (seconds - rest), Operands: w.Bytes / rest}
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

// products returns FLOP/s of the products of a layer: forward and both gradients.
func (f *benchMachineFlags) products(ctx context.Context, dt tensor.DType, threads int) (float64, error) {
	shape := bench.GEMMShape{M: 2048, K: 512, N: 1376}
	var shapes []bench.GEMMShape
	for _, s := range []bench.GEMMShape{{Trans: true}, {DX: true}, {DW: true}} {
		s.M, s.K, s.N = shape.M, shape.K, shape.N
		shapes = append(shapes, s)
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

// selfProgram runs commands of this program.
type selfProgram struct {
	path   string
	stderr io.Writer
}

func (p selfProgram) object(ctx context.Context, into any, args ...string) error {
	c := exec.CommandContext(ctx, p.path, args...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("trireme %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return json.Unmarshal(out, into)
}

// steps returns the seconds of the reference step, in copies processes at the same time: their mean.
func (p selfProgram) steps(ctx context.Context, dtype string, threads, steps, copies int) (float64, error) {
	seconds, errs := make([]float64, copies), make([]error, copies)
	var wg sync.WaitGroup
	for i := range copies {
		wg.Go(func() {
			var r stepReport
			errs[i] = p.object(ctx, &r, "bench", "step", "--config="+referenceStep, "--dtype="+dtype, "--threads="+strconv.Itoa(threads), "--steps="+strconv.Itoa(steps), "--warmup=2", "--clip=1", "--json")
			seconds[i] = r.StepMS / 1e3
		})
	}
	wg.Wait()
	sum := 0.0
	for _, s := range seconds {
		sum += s / float64(copies)
	}
	return sum, errors.Join(errs...)
}

func printMachine(w io.Writer, m planner.Machine) error {
	fmt.Fprintf(w, "%s, %d cores, %s\n", m.Processor, m.Cores, m.Date)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "type\tthreads\tproducts\toperands\tbeside others\t")
	for _, d := range slices.Sorted(maps.Keys(m.Compute)) {
		c := m.Compute[d]
		fmt.Fprintf(t, "%s\t1\t%s\t%sB/s\t%.2f\t\n", d, monitor.FLOPS(c.One.Products), monitor.SI(c.One.Operands), c.Beside)
		fmt.Fprintf(t, "%s\t%d\t%s\t%sB/s\t\t\n", d, m.Cores, monitor.FLOPS(c.All.Products), monitor.SI(c.All.Operands))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i, b := range m.Memory {
		fmt.Fprintf(w, "memory, %s: %sB/s\n", number(int64(i+1), "thread"), monitor.SI(b))
	}
	for _, name := range slices.Sorted(maps.Keys(m.Transports)) {
		x := m.Transports[name]
		for _, op := range slices.Sorted(maps.Keys(x.Ops)) {
			l := x.Ops[op]
			fmt.Fprintf(w, "%s, %d ranks, %s: %.1f us + %sB/s sent per rank\n", name, x.Ranks, op, 1e6*l.Latency, monitor.SI(l.Bandwidth))
		}
	}
	_, err := fmt.Fprintf(w, "disk: writes %sB/s, reads %sB/s\n", monitor.SI(m.Disk.Write), monitor.SI(m.Disk.Read))
	return err
}

func (f *benchMachineFlags) printSheets(w io.Writer) error {
	if f.json {
		return writeJSON(w, struct {
			Schema string              `json:"schema"`
			GPUs   []planner.GPU       `json:"gpus"`
			Links  []planner.SheetLink `json:"links"`
		}{"trireme.bench.sheets/1", planner.GPUs, planner.Links})
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GPU\tfloat32 TFLOP/s\tbfloat16 TFLOP/s\tmemory GB/s\tGB\tlink\tsource")
	for _, g := range planner.GPUs {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.0f\t%.0f\t%s\t%s\n", g.Name, g.Float32/1e12, g.BFloat16/1e12, g.Memory/1e9, g.Capacity/1e9, g.Link, g.Source)
	}
	fmt.Fprintln(t, "\nlink\tGB/s, one direction\tlatency us (assumed)\t\t\t\tsource")
	for _, l := range planner.Links {
		fmt.Fprintf(t, "%s\t%.3g\t%.0f\t\t\t\t%s\n", l.Name, l.Bandwidth/1e9, 1e6*l.Latency, l.Source)
	}
	return t.Flush()
}
