package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"trireme/internal/foreign"
	"trireme/internal/scaling"
	"trireme/parallel"
	"trireme/planner"
	"trireme/rendezvous"
)

type benchScalingFlags struct {
	trainFlags
	worlds     []int
	strategies []string
	dtypes     []string
	growth     string
	steps      int
	warmup     int
	rounds     int
	directory  string
}

func newBenchScaling() *cobra.Command {
	f := &benchScalingFlags{}
	c := &cobra.Command{
		Use:   "scaling",
		Short: "measure a run on several numbers of ranks, and say where the efficiency goes",
		Long: `Run the job of a configuration on each number of ranks and with each strategy, several rounds, and
report throughput, efficiency with its range, memory per rank and whether losses are equal. Trials
alternate within a round, so that a change of the machine's speed meets all of them.

strong: the rows of a step stay the same, and a rank has fewer micro-batches with more ranks. Rows are
training.global_batch_size, or those that give a rank of the largest world the file's micro-batches.
weak: the micro-batches of a rank stay the same.

The lost efficiency is attributed, in percent of the ideal throughput: exposed communication, waiting
for the slowest rank, less work per rank (measured by one rank with that share of the work), memory
bandwidth that ranks share (one-rank jobs at the same time), and the rest.

Trials are runs of trireme train in temporary directories; they save, export and evaluate nothing. On
cpu all have the same number of threads per rank: device.threads, or the cores over the largest world.
The report is written as scaling.md, scaling.json and scaling.svg.`,
		Example: `  trireme bench scaling --config run.yaml --worlds 1,2 --strategies ddp,fsdp
  trireme bench scaling --config run.yaml --worlds 1,2,4 --mode weak --rounds 5 --output_dir scaling
  trireme bench scaling --config run.yaml --worlds 1,2 --param_dtypes float32,bfloat16 --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	p := c.Flags()
	p.StringVarP(&f.config, "config", "c", "", "configuration `FILE`, as for train")
	p.StringVar(&f.format, "config_format", "", "`FORMAT` of the file, if its keys are ambiguous: "+strings.Join(foreign.Formats(), ", "))
	p.IntSliceVar(&f.worlds, "worlds", []int{1, 2}, "numbers of ranks, with 1")
	p.StringSliceVar(&f.strategies, "strategies", nil, "sharding strategies: ddp, fsdp, zero_1, zero_2, ... (default: the file's)")
	p.StringSliceVar(&f.dtypes, "param_dtypes", nil, "types of parameters in computation: float32, bfloat16 (default: the file's)")
	p.StringVar(&f.growth, "mode", "strong", "strong, weak or both")
	p.IntVar(&f.steps, "steps", 10, "measured steps of a trial")
	p.IntVar(&f.warmup, "warmup", 2, "steps before the measured ones")
	p.IntVar(&f.rounds, "rounds", 3, "rounds, each with all trials")
	p.StringVarP(&f.directory, "output_dir", "o", "scaling", "`DIR` for the report; files of an earlier report are replaced")
	p.StringArrayVar(&f.sets, "set", nil, "set a key of the configuration, `KEY=VALUE` (repeatable)")
	p.BoolVar(&f.json, "json", false, "print the report as one JSON object")
	_ = c.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{"strong", "weak", "both"}, cobra.ShellCompDirectiveNoFileComp)) // cannot fail: the flag exists
	return c
}

// check checks the flags and returns the experiment without its work.
func (f *benchScalingFlags) check() (e scaling.Experiment, err error) {
	if f.config == "" {
		return e, usage("bench scaling needs a configuration", "--config run.yaml")
	}
	if err := oneOf("mode", f.growth, "strong", "weak", "both"); err != nil {
		return e, err
	}
	for _, m := range []scaling.Mode{scaling.Strong, scaling.Weak} {
		if f.growth == "both" || f.growth == string(m) {
			e.Modes = append(e.Modes, m)
		}
	}
	for _, n := range []struct {
		flag       string
		value, min int
	}{{"steps", f.steps, 1}, {"warmup", f.warmup, 0}, {"rounds", f.rounds, 1}} {
		if n.value < n.min {
			return e, usage(fmt.Sprintf("--%s is %d: it must be at least %d", n.flag, n.value, n.min), "")
		}
	}
	if e.Worlds, err = distinctWorlds(f.worlds); err != nil {
		return e, err
	}
	if len(e.Worlds) == 0 || e.Worlds[0] != 1 {
		return e, usage("--worlds has no 1: efficiency is relative to one rank", "--worlds "+list(append([]int{1}, e.Worlds...)))
	}
	for _, s := range f.strategies {
		known, err := parallel.ParseStrategy(s)
		if err != nil {
			return e, usage("--strategies: "+err.Error(), "")
		}
		if slices.Contains(e.Strategies, known.Name) {
			return e, usage(fmt.Sprintf("--strategies has %s twice", known.Name), "")
		}
		e.Strategies = append(e.Strategies, known.Name)
	}
	for i, d := range f.dtypes {
		if err := oneOf("param_dtypes", d, "float32", "bfloat16", "float16"); err != nil {
			return e, err
		}
		if slices.Contains(f.dtypes[:i], d) {
			return e, usage(fmt.Sprintf("--param_dtypes has %s twice", d), "")
		}
	}
	e.DTypes = f.dtypes
	return e, nil
}

// distinctWorlds returns the values of --worlds in ascending order.
func distinctWorlds(worlds []int) ([]int, error) {
	out := slices.Sorted(slices.Values(worlds))
	for i, w := range out {
		switch {
		case w < 1:
			return nil, usage(fmt.Sprintf("--worlds has %d: a world has at least 1 rank", w), "--worlds 1,2")
		case i > 0 && w == out[i-1]:
			return nil, usage(fmt.Sprintf("--worlds has %d twice", w), "--worlds "+list(slices.Compact(slices.Clone(out))))
		}
	}
	return out, nil
}

func list(n []int) string {
	return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(n), "[]")), ",")
}

func (f *benchScalingFlags) run(c *cobra.Command) error {
	e, err := f.check()
	if err != nil {
		return err
	}
	largest := e.Worlds[len(e.Worlds)-1]
	j, err := f.job(c, rendezvous.Single())
	if err != nil {
		return err
	}
	if err := f.work(&e, j, largest); err != nil {
		return err
	}
	rates, err := planner.LoadMachine()
	if err != nil {
		return &Exit{CodeUsage, err}
	}
	t, err := f.trials(c, j, largest)
	if err != nil {
		return err
	}
	defer os.RemoveAll(t.temporary)
	r, pj, err := f.report(c, j, e, t.threads)
	if err != nil {
		return err
	}
	cells := e.Cells()
	rounds, err := t.rounds(c.Context(), cells, f.rounds)
	if err != nil {
		return err
	}
	r.Rows = scaling.Rows(cells, rounds)
	r.Transport = t.transport
	if err := predictRows(c.Context(), rates, pj, cells, r); err != nil {
		return err
	}
	if err := writeScaling(f.directory, r); err != nil {
		return err
	}
	if f.json {
		return writeJSON(c.OutOrStdout(), r)
	}
	if err := r.Print(c.OutOrStdout()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "report: %s\n", filepath.Join(f.directory, "scaling.md"))
	return err
}

// work sets the micro-batches of the experiment, and what the flags leave to the file.
func (f *benchScalingFlags) work(e *scaling.Experiment, j *job, largest int) error {
	t := j.cfg.Training
	if t.MicroBatchTokens > 0 {
		return usage("bench scaling needs micro-batches of a fixed number of rows, and training.micro_batch_tokens is set", "--set training.micro_batch_tokens=0 --set training.micro_batch_size=4")
	}
	if len(e.Strategies) == 0 {
		s, err := parallel.ParseStrategy(j.cfg.Parallel.Strategy)
		if err != nil {
			return &Exit{CodeUsage, err}
		}
		e.Strategies = []string{s.Name}
	}
	if len(e.DTypes) == 0 {
		e.DTypes = []string{j.cfg.Precision.ParamDType}
	}
	e.PerRank = max(1, t.GradientAccumulationSteps)
	e.MicroBatches = e.PerRank
	for _, w := range e.Worlds { // the file's micro-batches on the largest world, and a multiple of each world
		for e.MicroBatches%w != 0 || e.MicroBatches < e.PerRank*largest {
			e.MicroBatches++
		}
	}
	for !multipleOf(e.MicroBatches, e.Worlds) {
		e.MicroBatches++
	}
	if t.GlobalBatchSize == 0 {
		return nil
	}
	e.MicroBatches = t.GlobalBatchSize / t.MicroBatchSize
	if t.GlobalBatchSize%t.MicroBatchSize != 0 || !multipleOf(e.MicroBatches, e.Worlds) {
		return usage(fmt.Sprintf("training.global_batch_size %d is not a whole number of micro-batches of %d rows on each of %s ranks", t.GlobalBatchSize, t.MicroBatchSize, list(e.Worlds)),
			"--set training.global_batch_size=0 (chosen for the worlds), or other --worlds")
	}
	if t.GradientAccumulationSteps == 0 {
		e.PerRank = e.MicroBatches / largest
	}
	return nil
}

func multipleOf(n int, worlds []int) bool {
	return !slices.ContainsFunc(worlds, func(w int) bool { return n%w != 0 })
}
