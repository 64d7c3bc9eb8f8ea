package cli

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"trireme/internal/rundir"
	"trireme/internal/runlog"
	"trireme/monitor"
)

func newRunsRm() *cobra.Command {
	var dry, yes bool
	c := &cobra.Command{
		Use:   "rm DIR...",
		Short: "remove the directories of runs that have ended",
		Long: `Remove the directories of runs with all their files: records, checkpoints in them and models. A
running run and a directory that is not a run's are refused, and then nothing is removed. On a
terminal the command asks first.`,
		Example: `  trireme runs rm runs/sft-1 --dry_run
  trireme runs rm runs/sft-1 runs/sft-2`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("rm needs the directories of runs", "trireme runs ls")
			}
			return nil
		},
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		for _, dir := range args {
			if err := checkRemovable(dir); err != nil {
				return err
			}
		}
		for _, dir := range args {
			size, files := dirSize(dir)
			if dry {
				fmt.Fprintf(c.OutOrStdout(), "would remove %s (%d files, %s)\n", dir, files, monitor.Bytes(size))
			}
		}
		if dry {
			return nil
		}
		if in, ok := c.InOrStdin().(*os.File); ok && !yes && term.IsTerminal(int(in.Fd())) {
			fmt.Fprintf(c.ErrOrStderr(), "remove %s? [y/N] ", strings.Join(args, ", "))
			answer, _ := bufio.NewReader(in).ReadString('\n')
			if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
				return &Exit{CodeNo, errors.New("nothing was removed")}
			}
		}
		for _, dir := range args {
			if err := removeRun(dir); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "removed %s\n", dir)
		}
		return nil
	}
	c.Flags().BoolVar(&dry, "dry_run", false, "print what would be removed")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask on a terminal")
	return c
}

// checkRemovable refuses a directory that is not a run's, or whose run has not ended.
func checkRemovable(dir string) error {
	st, err := os.Lstat(dir)
	switch {
	case err != nil:
		return usage(dir+": no such directory", "trireme runs ls")
	case st.Mode()&os.ModeSymlink != 0:
		return usage(dir+" is a symbolic link", "the directory that it names")
	case !st.IsDir() || !runlog.Is(dir):
		return usage(dir+" is not the directory of a run: it has neither "+rundir.Identity+" nor "+rundir.Metrics, "trireme runs ls")
	case rundir.IsInside(".", dir):
		return usage("the working directory is in "+dir, "another working directory")
	}
	if o, held := rundir.Holder(dir); held {
		return stillRuns(&rundir.InUseError{Dir: dir, Owner: o})
	}
	return nil
}

// removeRun removes a directory under its lock.
func removeRun(dir string) error {
	lock, err := rundir.Acquire(dir)
	if err != nil {
		return stillRuns(err)
	}
	return errors.Join(os.RemoveAll(dir), lock.File().Close())
}

// stillRuns advises about the lock of a run that is to be removed.
func stillRuns(err error) error {
	var in *rundir.InUseError
	if !errors.As(err, &in) {
		return &Exit{CodeUsage, err}
	}
	try := "wait until the run ends"
	if in.Owner.PID > 0 {
		try += fmt.Sprintf(", or stop it: kill %d (on %s)", in.Owner.PID, in.Owner.Host)
	}
	return &Exit{CodeUsage, &Problem{Text: in.Error(), Try: try, Err: err}}
}
