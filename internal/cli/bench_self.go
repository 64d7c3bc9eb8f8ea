package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// selfProgram runs commands of this program.
type selfProgram struct {
	path   string
	stderr io.Writer
}

func (p selfProgram) object(ctx context.Context, into any, args ...string) error {
	c := exec.CommandContext(ctx, p.path, args...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("trireme %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return json.Unmarshal(out, into)
}

// stepSeconds are the seconds of a step, and of the optimizer in it.
type stepSeconds struct{ all, optimizer float64 }

// steps returns the seconds of the reference step, in copies processes at the same time: their mean.
func (p selfProgram) steps(ctx context.Context, dtype string, threads, steps, copies int) (mean stepSeconds, err error) {
	reports, errs := make([]stepReport, copies), make([]error, copies)
	var wg sync.WaitGroup
	for i := range copies {
		wg.Go(func() {
			errs[i] = p.object(ctx, &reports[i], "bench", "step", "--config="+referenceStep, "--dtype="+dtype, "--threads="+strconv.Itoa(threads), "--steps="+strconv.Itoa(steps), "--warmup=2", "--clip=1", "--json")
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return mean, err
	}
	for _, r := range reports {
		mean.all += r.StepMS / 1e3 / float64(copies)
		if r.Split != nil {
			mean.optimizer += (r.Split.Optimizer + r.Split.Publish) / float64(copies)
		}
	}
	if mean.optimizer <= 0 || mean.optimizer >= mean.all {
		return mean, fmt.Errorf("the optimizer takes %v s of the reference step of %v s", mean.optimizer, mean.all)
	}
	return mean, nil
}
