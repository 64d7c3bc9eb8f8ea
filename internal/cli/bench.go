package cli

import "github.com/spf13/cobra"

func newBench() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "measure matrix products, collectives and training steps on this machine",
		Example: `  trireme bench gemm
  trireme bench collectives --nproc 2
  trireme bench step --config A --nproc 2`,
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	c.AddCommand(
		newBenchCollectives(),
		newBenchGEMM(),
		newBenchStep(),
	)
	return c
}
