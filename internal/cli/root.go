package cli

import "github.com/spf13/cobra"

// newRoot is the whole tree of commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "trireme",
		Short: "distributed training of transformer language models",
		Long: `Trireme trains transformer language models on any number of processes:
DDP, FSDP, ZeRO and hybrid sharding in one program.

Exit codes: 0 done; 1 failed; 2 command line or configuration; 3 a check answered no;
4 authentication; 75 stopped early with a good checkpoint; 76 hang or peer lost;
130, 143 a signal without a save; 134 a crash.`,
		Args:          cobra.ArbitraryArgs,
		RunE:          group,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(
		newBench(),
		newConfig(),
		newData(),
		newEval(),
		newGenerate(),
		newPlan(),
		newTokenize(),
		newTrain(),
		newVersion(),
	)
	return root
}
