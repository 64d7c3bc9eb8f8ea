package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/spf13/cobra"

	"trireme/internal/view"
)

// guardCommand is the hidden command of the process that restores a terminal.
const guardCommand = "restore-terminal"

// newGuard returns the command of the process that startGuard starts.
func newGuard() *cobra.Command {
	return &cobra.Command{
		Use:     guardCommand,
		Hidden:  true,
		Short:   "restore the terminal of a watch that was killed",
		Long:    "Restore the settings of the terminal on standard input when the pipe on descriptor 3 closes.\nOnly trireme watch runs it.",
		Example: "  trireme watch runs/sft-1",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			pipe := os.NewFile(3, "watch")
			if _, err := pipe.Stat(); err != nil {
				return usage(guardCommand+" is a part of trireme watch", "trireme watch DIR")
			}
			return view.GuardTerminal(os.Stdin, pipe)
		},
	}
}

// startGuard starts a process that restores the settings of a terminal when this one ends for any reason. It is in
// its own process group, so that it survives signals to the job of a shell.
func startGuard(tty *os.File) (io.WriteCloser, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	guard := exec.Command(exe, guardCommand)
	guard.Stdin, guard.ExtraFiles = tty, []*os.File{r}
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := guard.Start(); err != nil {
		w.Close()
		return nil, fmt.Errorf("starting the process that restores the terminal: %w", err)
	}
	go guard.Wait()
	return w, nil
}
