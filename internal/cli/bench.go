package cli

import "github.com/spf13/cobra"

func newBench() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "measure matrix products, attention, collectives, training steps, generation and scaling on this machine",
		Example: `  trireme bench gemm
  trireme bench collectives --nproc 2
  trireme bench step --config A --nproc 2
  trireme bench scaling --config run.yaml --worlds 1,2 --strategies ddp,fsdp`,
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	c.AddCommand(
		newBenchAttention(),
		newBenchCollectives(),
		newBenchGEMM(),
		newBenchGenerate(),
		newBenchMachine(),
		newBenchScaling(),
		newBenchStep(),
	)
	return c
}
