package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"trireme/rendezvous"
)

// detachVar is the descriptor of a detached run's pipe to the command that started it.
const detachVar = "TRIREME_DETACH_FD"

// detachReport is the output of --detach with --json, and the message of a detached run that has its directory.
type detachReport struct {
	Schema    string `json:"schema"`
	OutputDir string `json:"output_dir"`
	PID       int    `json:"pid"`
	Log       string `json:"log"` // output of the command
}

// startDetached runs this command line in a session of its own, without the terminal. It returns when the run has
// its directory, from which on its output is in the log, or when it has ended before.
func (f *trainFlags) startDetached(c *cobra.Command, env rendezvous.Env) error {
	switch {
	case f.dryRun:
		return usage("--detach contradicts --dry_run", "one of them")
	case env.Launched:
		return usage("--detach: another launcher started this rank (RANK, WORLD_SIZE)", "the job system's own way to run in the background")
	case len(f.hosts.changed()) > 0 && f.outputDir == "":
		return usage("--detach on several hosts needs a directory for the log", "--output_dir DIR")
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program to start the run: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	run := exec.Command(exe, append(strings.Fields(c.CommandPath())[1:], argumentsWithout(c.Flags(), []string{"detach", "json"})...)...)
	run.Stdout, run.Stderr = os.Stdout, os.Stderr
	if stdin, ok := c.InOrStdin().(*os.File); ok && !term.IsTerminal(int(stdin.Fd())) {
		run.Stdin = stdin // a configuration may come from a pipe
	}
	run.ExtraFiles, run.Env = []*os.File{w}, append(os.Environ(), detachVar+"=3")
	run.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stop := stopOf(c.Context())
	defer stop.Graceful()()
	err = errors.Join(run.Start(), w.Close())
	if err != nil {
		return fmt.Errorf("starting the run: %w", err)
	}
	started := make(chan struct{})
	defer close(started)
	go func() {
		select {
		case <-c.Context().Done(): // it has no terminal that would stop it
			run.Process.Signal(stop.Requested().Signal)
		case <-started:
		}
	}()
	var report detachReport
	if err := json.NewDecoder(r).Decode(&report); err != nil {
		return ended(run.Wait(), err)
	}
	if f.json {
		return writeJSON(c.OutOrStdout(), report)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "detached: %s, pid %d, output in %s\nwatch: trireme watch %s\nstop:  kill %d (saves a checkpoint)\n",
		report.OutputDir, report.PID, report.Log, quoted(report.OutputDir), report.PID)
	return err
}

// ended is the error of a run that ended before it had a directory. It has reported its own error.
func ended(err, read error) error {
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return &Exit{Code: exit.ExitCode()}
	case errors.As(err, &exit):
		return &Exit{Code: 128 + int(exit.Sys().(syscall.WaitStatus).Signal())}
	case err != nil:
		return err
	case errors.Is(read, io.EOF):
		return nil
	}
	return read
}

// quoted returns a path as a shell reads it.
func quoted(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool {
		return !slices.Contains([]rune("/._-+=:@%,"), r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

// detach moves this process's output to the log of a run in dir and reports to startDetached, if that started it.
func detach(dir string) error {
	text, ok := os.LookupEnv(detachVar)
	if !ok {
		return nil
	}
	os.Unsetenv(detachVar) // workers are not detached
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 3 {
		return fmt.Errorf("%s=%q is not a descriptor", detachVar, text)
	}
	syscall.CloseOnExec(fd)
	pipe := os.NewFile(uintptr(fd), "detach")
	defer pipe.Close()
	path := filepath.Join(dir, "logs", "train.log")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return outputError(err)
	}
	log, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return outputError(err)
	}
	defer log.Close()
	b, err := json.Marshal(detachReport{"trireme.detach/1", dir, os.Getpid(), path})
	if err == nil {
		_, err = pipe.Write(append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("reporting a detached run: %w", err)
	}
	for _, fd := range []int{1, 2} {
		if err := unix.Dup2(int(log.Fd()), fd); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}
