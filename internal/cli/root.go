package cli

import "github.com/spf13/cobra"

// Commands returns the command tree, for the man pages and completion scripts of a release.
func Commands() *cobra.Command { return newRoot() }

func newRoot() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "trireme",
		Short: "train transformer language models on one or many processes",
		Long: `Train transformer language models on any number of processes, with DDP, FSDP,
ZeRO or hybrid sharding.

It runs on CPUs, and on GPUs and TPUs by a plug-in (--device), which is new.

Exit codes: 0 done; 1 failed; 2 invalid command line, configuration or input file;
3 a check failed; 4 authentication failed; 75 stopped early, with a checkpoint;
76 a rank hung or was lost; 130, 143 stopped by a signal, without a checkpoint; 134 crashed.`,
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
		newAlert(),
		newBench(),
		newCheckpoint(),
		newCompletion(),
		newConfig(),
		newConvert(),
		newData(),
		newDoctor(),
		newEval(),
		newGenerate(),
		newInit(),
		newLaunch(),
		newPlan(),
		newRecipes(),
		newRuns(),
		newTokenize(),
		newTrace(),
		newTrain(),
		newUI(),
		newVerify(),
		newVersion(),
		newWatch(),
		newGuard(),
	)
	root.Flags().BoolVarP(&version, "version", "v", false, "print the version")
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Short, c.Long, c.Example = "print the help of a command", "Print the help of a command, as --help does.", "  trireme help train"
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
