package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"trireme/checkpoint"
	"trireme/device"
	"trireme/internal/durable"
	"trireme/internal/foreign"
	"trireme/internal/impl"
	"trireme/internal/verify"
	"trireme/monitor"
	"trireme/parallel"
	"trireme/rendezvous"
	"trireme/train"
)

type verifyFlags struct {
	trainFlags
	worlds     []int
	strategies []string
	kinds      []string
	steps      int
	markdown   string
}

func newVerify() *cobra.Command {
	f := &verifyFlags{}
	c := &cobra.Command{
		Use:   "verify",
		Short: "prove that a run has the same bits on any number of ranks, with any strategy, and after a resume",
		Long: `Run the first steps of a configuration in many ways, and compare the loss and the gradient norm of each
step and a digest of the weights and the optimizer state after the last one, bit by bit: several numbers of
ranks with every strategy, numbers of threads, another transport, every kind of recomputation, optimizer
state and parameters in files, and the run stopped and resumed, once and three times, also on other ranks
with another strategy. Without --config, --model and --data this is the built-in recipe.

The reference is the configuration on the smallest number of ranks. Micro-batches are smaller than the
configuration's if a step has fewer of them than the largest number of ranks. Another size of micro-batches
is compared too, within a tolerance, because it rounds gradients in another order.

The runs are trireme train in a temporary directory (TMPDIR), which has room for two checkpoints; output_dir
is not touched. They evaluate and export nothing, and send nothing to trackers.

The exit code is 0 only if all is equal, 3 if not. The bits are of one set of instructions
(device.instructions) and one way to multiply (device.float32_matmul), which the report names.`,
		Example: `  trireme verify
  trireme verify --config run.yaml
  trireme verify --config run.yaml --worlds 1,2 --strategies ddp,fsdp --kinds ranks,resume
  trireme verify --config run.yaml --json --markdown verify.md`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	p := c.Flags()
	p.StringVarP(&f.config, "config", "c", "", "configuration `FILE`, as for train")
	p.StringVar(&f.format, "config_format", "", "`FORMAT` of the file, if its keys are ambiguous: "+strings.Join(foreign.Formats(), ", "))
	p.StringArrayVar(&f.sets, "set", nil, "set a key of the configuration, `KEY=VALUE` (repeatable)")
	for _, k := range keyFlags {
		if slices.Contains([]string{"model", "data", "device", "plugin"}, k.flag) {
			p.Var(&stringFlag{f.keyValue(k.path), k.value}, k.flag, fmt.Sprintf("%s [%s]", k.usage, k.path))
		}
	}
	p.IntSliceVar(&f.worlds, "worlds", []int{1, 2, 4}, "numbers of ranks; the reference has the smallest")
	p.StringSliceVar(&f.strategies, "strategies", parallel.StrategyNames(), "sharding strategies")
	p.StringSliceVar(&f.kinds, "kinds", kindNames(), "what to compare")
	p.IntVar(&f.steps, "steps", 5, "steps to compare")
	p.StringVar(&f.markdown, "markdown", "", "also write the report to `FILE`, for a README")
	p.BoolVar(&f.json, "json", false, "print the report as one JSON object")
	return c
}

func kindNames() (out []string) {
	for _, k := range verify.Kinds() {
		out = append(out, string(k))
	}
	return out
}

// check checks the flags and returns the experiment without its job.
func (f *verifyFlags) check() (e verify.Experiment, err error) {
	if f.steps < verify.MinSteps {
		return e, usage(fmt.Sprintf("--steps is %d: a run that stops three times has at least %d", f.steps, verify.MinSteps), fmt.Sprintf("--steps %d", verify.MinSteps))
	}
	e.Steps = f.steps
	if e.Worlds, err = distinctWorlds(f.worlds); err != nil {
		return e, err
	}
	if len(e.Worlds) == 0 {
		return e, usage("--worlds is empty", "--worlds 1,2")
	}
	var names []string
	for _, s := range f.strategies {
		known, err := parallel.ParseStrategy(s)
		if err != nil {
			return e, usage("--strategies: "+err.Error(), "")
		}
		names = append(names, known.Name)
	}
	for _, s := range parallel.StrategyNames() { // from least to most sharded
		if slices.Contains(names, s) {
			e.Strategies = append(e.Strategies, s)
		}
	}
	if len(e.Strategies) == 0 {
		return e, usage("--strategies is empty", "--strategies ddp,fsdp")
	}
	for _, k := range f.kinds {
		if err := oneOf("kinds", k, kindNames()...); err != nil {
			return e, err
		}
	}
	for _, k := range verify.Kinds() {
		if slices.Contains(f.kinds, string(k)) {
			e.Kinds = append(e.Kinds, k)
		}
	}
	return e, nil
}

func (f *verifyFlags) run(c *cobra.Command) error {
	e, err := f.check()
	if err != nil {
		return err
	}
	j, err := f.job(c, rendezvous.Single())
	if err != nil {
		return err
	}
	if err := f.setJob(&e, j); err != nil {
		return err
	}
	if f.markdown != "" {
		if err := os.MkdirAll(filepath.Dir(f.markdown), 0o755); err != nil {
			return fmt.Errorf("--markdown: %w", err)
		}
	}
	r := &verify.Report{
		Config: j.recipeName(f.config), Command: strings.TrimSpace("trireme verify " + strings.Join(argumentsWithout(c.Flags(), []string{"json", "markdown"}), " ")),
		Date: time.Now().UTC().Format(time.RFC3339), Device: string(e.Config.Device.Name), ParamDType: e.Config.Precision.ParamDType, RowsPerStep: e.Config.Training.GlobalBatchSize,
	}
	if err := f.describe(c, r, &e, j); err != nil {
		return err
	}
	err = untilStopped(c.Context(), "comparing runs", "the same command starts over", func(ctx context.Context) error {
		return runTrials(ctx, e, r, c.ErrOrStderr())
	})
	if err != nil {
		return err
	}
	if f.markdown != "" {
		var b strings.Builder
		if err := r.Markdown(&b); err != nil {
			return err
		}
		if err := durable.WriteFile(f.markdown, []byte(b.String())); err != nil {
			return fmt.Errorf("--markdown: %w", err)
		}
	}
	if f.json {
		err = writeJSON(c.OutOrStdout(), r)
	} else {
		err = r.Print(c.OutOrStdout())
	}
	if err == nil && !r.Equal {
		return &Exit{Code: CodeNo}
	}
	return err
}

// setJob sets the configuration of the experiment: the job's, with rows per step for every number of ranks, and
// without output of its own.
func (f *verifyFlags) setJob(e *verify.Experiment, j *job) (err error) {
	c := j.cfg
	ranks := f.ranks(rendezvous.Single(), j)
	if m := c.Parallel.Mesh; m.Replicate > 0 && m.Shard > 0 {
		ranks = m.Replicate * m.Shard
	}
	if c.Training, err = c.Training.WithRanks(ranks); err != nil {
		return &Exit{CodeUsage, err}
	}
	e.MicroBatch, c.Training = c.Training.MicroBatchSize, verify.Divide(c.Training, e.Worlds[len(e.Worlds)-1])
	t := &c.Training
	if t.MaxSteps > 0 && t.MaxSteps < e.Steps {
		return usage(fmt.Sprintf("training.max_steps is %d, and %d steps are compared", t.MaxSteps, e.Steps), fmt.Sprintf("--set training.max_steps=%d", e.Steps))
	}
	t.LoadBestModelAtEnd = false
	c.MoveAside = false
	c.Checkpoint = checkpoint.Config{Keep: checkpoint.Keep{KeepLastN: 1}}
	c.Logging = monitor.Default()
	c.Logging.View, c.Logging.TensorBoard = monitor.ViewNever, false
	if c.Parallel.Backend == "mpi" { // it needs mpirun
		c.Parallel.Backend = "auto"
	}
	e.Config, e.Threads = c, c.Device.ThreadsPerRank(e.Worlds[0])
	return nil
}

// describe sets what the report says of the model and the machine, and the number of layers.
func (f *verifyFlags) describe(c *cobra.Command, r *verify.Report, e *verify.Experiment, j *job) error {
	if err := j.locateModel(c.Context(), c.ErrOrStderr()); err != nil {
		return err
	}
	config, err := j.model, error(nil)
	if config == nil {
		if config, err = j.readModel(); err != nil {
			return &Exit{CodeUsage, err}
		}
	}
	info, err := train.ModelInfo(config)
	if err != nil {
		return &Exit{CodeUsage, err}
	}
	e.Layers = info.Layers
	v := readVersion()
	r.Model = fmt.Sprintf("%s with %s of width %d", config.Family.Name, number(int64(info.Layers), "layer"), info.Heads*info.HeadDim)
	r.Version = "trireme " + v.Version
	r.Machine = verify.Machine{Processor: processorName(), Cores: v.CPUs, System: v.Platform}
	if !j.cfg.Device.Name.Accelerator() {
		if r.Machine.Instructions = string(j.cfg.Device.Instructions); j.cfg.Device.Instructions == device.AutoInstructions {
			r.Machine.Instructions = impl.Best().String()
		}
		r.Machine.Float32Matmul = string(j.cfg.Device.CPUFloat32Matmul())
	}
	return nil
}

// recipeName returns the base name of the configuration's file, or the name of the recipe or the model.
func (j *job) recipeName(file string) string {
	switch {
	case file != "":
		return filepath.Base(file)
	case j.recipe != nil:
		return j.recipe.Name
	}
	return j.cfg.Name
}
