package cli

import "github.com/spf13/cobra"

// newRoot is the whole tree of commands.
func newRoot() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "trireme",
		Short: "distributed training of transformer language models",
		Long: `Trireme trains transformer language models on any number of processes:
DDP, FSDP, ZeRO and hybrid sharding in one program.

It runs on CPUs; GPUs are not supported yet.

Exit codes: 0 done; 1 failed; 2 invalid command line, configuration or input file;
3 a check answered no; 4 authentication; 75 stopped early with a good checkpoint;
76 hang or peer lost; 130, 143 a signal without a save; 134 a crash.`,
		Example: `  trireme train
  trireme init run.yaml
  trireme train --config run.yaml --nproc 2
  trireme generate --model DIR --prompt "Once upon a time"`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if version && len(args) == 0 {
				return readVersion().print(c.OutOrStdout())
			}
			return group(c, args)
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(
		newBench(),
		newCompletion(),
		newConfig(),
		newData(),
		newEval(),
		newGenerate(),
		newInit(),
		newPlan(),
		newRecipes(),
		newTokenize(),
		newTrain(),
		newVersion(),
	)
	root.Flags().BoolVarP(&version, "version", "v", false, "print the version")
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Short, c.Long, c.Example = "print the help of a command", "Prints the help of a command, as its --help does.", "  trireme help train"
			c.Run, c.RunE = nil, help
		}
	}
	addAliases(root)
	return root
}

// help is the RunE of the command help.
func help(c *cobra.Command, args []string) error {
	of, rest, err := c.Root().Find(args)
	if err != nil {
		return err
	}
	if len(rest) > 0 && of.HasAvailableSubCommands() {
		return group(of, rest)
	}
	of.InitDefaultHelpFlag()
	return of.Help()
}
