package cli

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"trireme/collective/mpi"
	"trireme/launch"
	"trireme/monitor"
)

// Main runs one command line, without the program's name, and returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	if err := limitHeap(); err != nil {
		return report(stderr, err)
	}
	stop := launch.HandleSignals(os.LookupEnv, stderr, nil)
	defer stop.Close()
	defer mpi.Finalize()
	defer func() {
		if e := recover(); e != nil {
			code = report(stderr, crash(stop, "", e, debug.Stack()))
		}
	}()
	// Messages quote untrusted files and servers. Piped output stays unchanged.
	stderr = monitor.NewControlEscaper(stderr)
	if f, ok := stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		stdout = monitor.NewControlEscaper(stdout)
	}
	root := newRoot()
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		completions(root)
	}
	root.SetArgs(bareResume(args))
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)

	// Errors of cobra concern the command line and precede the command.
	running := false
	watch(root, &running)
	cmd, err := root.ExecuteContextC(withStop(stop))
	if err != nil && !running {
		err = usageError(cmd, err)
	}
	return report(stderr, err)
}

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

// crash writes the stack of a panic to a file and returns the error, which starts with who.
func crash(stop *launch.Shutdown, who string, e any, stack []byte) error {
	p := &Problem{Text: fmt.Sprintf("%sinternal error: %v", who, e), Why: "a bug in trireme, not in your input"}
	if path, err := stop.WriteCrash(fmt.Sprintf("panic: %v\n\n%s", e, stack)); err == nil && path != "" {
		p.Where = "stack: " + path
	}
	return &Exit{CodeCrashed, p}
}
