package cli

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"trireme/launch"
	"trireme/monitor"
)

// Main runs one command line, without the program's name, and returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	if err := limitHeap(); err != nil {
		return report(stderr, err)
	}
	stop := launch.OnStop(os.LookupEnv, stderr, nil)
	defer stop.Close()
	defer func() {
		if e := recover(); e != nil {
			code = report(stderr, crash(stop, e, debug.Stack()))
		}
	}()
	// Files and servers of strangers are quoted in messages. What is piped on stays as it is.
	stderr = monitor.NewCleaned(stderr)
	if f, ok := stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		stdout = monitor.NewCleaned(stdout)
	}
	root := newRoot()
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		completions(root)
	}
	root.SetArgs(bareResume(args))
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)

	// cobra's own errors are about the command line; they come before a command runs.
	running := false
	watch(root, &running)
	cmd, err := root.ExecuteContextC(withStop(stop))
	if err != nil && !running {
		err = usageError(cmd, err)
	}
	return report(stderr, err)
}

// watch notes that a command has begun to run.
func watch(c *cobra.Command, running *bool) {
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			*running = true
			return run(c, args)
		}
	}
	for _, sub := range c.Commands() {
		watch(sub, running)
	}
}

// crash keeps the stack of a panic in a file, out of the reader's way.
func crash(stop *launch.Stop, e any, stack []byte) error {
	p := &Problem{Text: fmt.Sprintf("internal error: %v", e), Why: "a mistake in trireme, not in your input"}
	if path, err := stop.Crash(fmt.Sprintf("panic: %v\n\n%s", e, stack)); err == nil && path != "" {
		p.Where = "stack: " + path
	}
	return &Exit{CodeCrashed, p}
}
