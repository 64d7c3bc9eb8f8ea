package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"trireme/internal/render"
)

func newLaunch() *cobra.Command { return newLaunchCommand(&launchFlags{}) }

func newLaunchCommand(f *launchFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "launch [flags] [--] PROGRAM [ARGS]",
		Short: "start a program on one or many machines, as torchrun does",
		Long: `Start N copies of a program on this machine, or on several machines with this command on each, and
give each its rank in the environment, as torchrun does. A .py file, and a module with -m, run by
python3 -u (or by PYTHON_EXEC); any other program runs itself. Flags after PROGRAM belong to it.

When a worker fails, the others are stopped, and all start again up to --max_restarts times. The
last line names the worker that failed first and its host, why, and its log. The exit code is that
worker's.

Flags of torchrun (with - or _), accelerate launch and deepspeed are accepted, and PET_* variables
are their defaults, as for torchrun. A flag without effect is named. docs/clusters.md has a table.`,
		Example: `  trireme launch --nproc_per_node 4 train.py --epochs 3
  trireme launch --standalone --nproc_per_node auto -m package.train
  trireme launch --nnodes 2 --node_rank 0 --master_addr 10.0.0.1 --nproc_per_node 8 -- ./program
  trireme launch --nnodes 1:4 --rdzv_endpoint n0:29400 --max_restarts 3 -- trireme train --config run.yaml
  trireme launch --hostfile hosts -- trireme train --config run.yaml
  trireme launch --nnodes 4 --render slurm -- trireme train --config run.yaml >job.sbatch`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	c.Flags().SetInterspersed(false)
	f.register(c.Flags())
	return c
}

func (f *launchFlags) run(c *cobra.Command, args []string) error {
	if f.remote {
		return f.runRemote(c)
	}
	if f.rendering.kind != "" {
		return f.render(c, args)
	}
	for _, name := range []string{"output", "apply"} {
		if f.flags.Lookup(name).Changed {
			return usage("--"+name+" is for --render", "--render aws, or another of "+strings.Join(render.Kinds(), ", "))
		}
	}
	s, err := f.settings(c, args)
	if err != nil {
		return err
	}
	for _, n := range s.notes {
		fmt.Fprintf(c.ErrOrStderr(), "note: %s\n", n)
	}
	if s.hosts != nil {
		return s.runHosts(c)
	}
	signals := make(chan os.Signal, 32)
	defer stopOf(c.Context()).Forward(signals)()
	s.cluster.Workers.Signals = signals
	return s.runHere(context.WithoutCancel(c.Context()), c.OutOrStdout(), c.ErrOrStderr())
}
