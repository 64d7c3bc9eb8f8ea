package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"trireme/monitor"
	"trireme/planner"
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

func printMachine(w io.Writer, m planner.Machine) error {
	fmt.Fprintf(w, "%s, %d cores, %s\n", m.Processor, m.Cores, m.Date)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "type\tthreads\tproducts\toperands\tstate\tbeside others\t")
	for _, d := range slices.Sorted(maps.Keys(m.Compute)) {
		c := m.Compute[d]
		fmt.Fprintf(t, "%s\t1\t%s\t%sB/s\t%sB/s\t%.2f\t\n", d, monitor.FLOPS(c.One.Products), monitor.SI(c.One.Operands), monitor.SI(c.One.State), c.Beside)
		fmt.Fprintf(t, "%s\t%d\t%s\t%sB/s\t%sB/s\t\t\n", d, m.Cores, monitor.FLOPS(c.All.Products), monitor.SI(c.All.Operands), monitor.SI(c.All.State))
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
