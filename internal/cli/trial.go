package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"trireme/monitor"
	"trireme/train"
)

// trialVar marks a run that another command starts: it evaluates and exports nothing. Its value is trialMeasured, or
// trialUntil and a step.
const (
	trialVar      = "TRIREME_TRIAL"
	trialMeasured = "measured" // it saves nothing either
	trialUntil    = "until="   // it stops after this step, with a checkpoint
)

func isTrial() bool { return os.Getenv(trialVar) != "" }

// trialStop returns the step after which a trial stops; 0: none.
func trialStop() (int64, error) {
	text, ok := strings.CutPrefix(os.Getenv(trialVar), trialUntil)
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s=%s%s: it needs a step", trialVar, trialUntil, text)
	}
	return n, nil
}

// saveAfter is the hook of a trial that stops: it saves after that step, or after the run's last one.
type saveAfter int64

func (h saveAfter) AfterStep(ctx context.Context, r *train.Run, rec monitor.Record) error {
	if rec.Step != int64(h) && rec.Step != rec.MaxSteps {
		return nil
	}
	return r.Save(ctx)
}

// runTrial runs this program with arguments. Cancellation stops it as Ctrl-C does.
func runTrial(ctx context.Context, env, args []string) (stdout []byte, stderr string, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, "", fmt.Errorf("finding this program to start trials: %w", err)
	}
	c := exec.CommandContext(ctx, exe, args...)
	c.Env = env
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 20 * time.Second
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err = c.Run()
	return out.Bytes(), errs.String(), err
}

// trialError is the error of a trial with the last lines that it printed, and its exit code.
func trialError(ctx context.Context, trial fmt.Stringer, err error, stderr string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	err = fmt.Errorf("%v: %w: %s", trial, err, strings.Join(lines[max(0, len(lines)-4):], "\n"))
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return &Exit{exit.ExitCode(), err}
	}
	return err
}

func readRecords(path string) (out []*monitor.Record, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		r, _, err := monitor.Parse(bytes.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if r != nil {
			out = append(out, r)
		}
	}
}
