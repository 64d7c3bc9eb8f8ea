package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// versions prints the versions of Python and of packages.
const versions = `import importlib.metadata as m, json, platform
o = {"python": platform.python_version()}
for n in ("torch", "triton", "jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda13-plugin", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13"):
    try: o[n] = m.version(n)
    except m.PackageNotFoundError: pass
print(json.dumps(o))`

func (h *harness) environment(ctx context.Context) error {
	e := &environment{}
	h.report.Environment = e
	note := func(what string, err error) {
		if err != nil {
			e.Errors = append(e.Errors, what+": "+err.Error())
		}
	}
	var err error
	args := []string{"doctor", "devices", "--json"}
	if h.plugin != "" {
		args = append(args, "--plugin", h.plugin)
	}
	e.Devices, err = h.triremeChild(30*time.Second, args...).object(ctx)
	note("trireme doctor devices", err)
	e.Python, err = child{args: []string{h.python, "-c", versions}, limit: 30 * time.Second}.object(ctx)
	note(h.python, err)
	if _, err := exec.LookPath("git"); err == nil {
		if out, err := (child{args: []string{"git", "rev-parse", "HEAD"}, limit: 5 * time.Second}).run(ctx); err == nil {
			e.Commit = strings.TrimSpace(string(out))
		}
	}
	if len(e.Errors) > 0 {
		return errors.New(strings.Join(e.Errors, "; "))
	}
	return nil
}

// reference runs the reference runs of package train on the device: float32 and bfloat16 at once, since most
// of their time is compilation.
func (h *harness) reference(ctx context.Context) error {
	tests := []string{"^TestXLAGolden$", "^TestXLAGoldenMixed$"}
	logs, errs := make([][]byte, len(tests)), make([]error, len(tests))
	var wg sync.WaitGroup
	for i, pattern := range tests {
		if h.small {
			pattern += "/^(llama-mha|gpt2)$"
		}
		wg.Go(func() {
			logs[i], errs[i] = child{
				args:  []string{h.golden, "-test.v=test2json", "-test.run", pattern}, // this form has results at once
				dir:   "train",
				env:   append(h.caches(), "TRAIN_TEST_DEVICE="+h.device, "TRAIN_TEST_PLUGIN="+h.plugin),
				limit: h.budget,
			}.run(ctx)
		})
	}
	wg.Wait()
	g, err := parseGolden(string(slices.Concat(logs...))), errors.Join(errs...)
	h.report.Golden = g
	switch {
	case g.Failed > 0 && err != nil:
		err = fmt.Errorf("%d of %d cases failed: %w", g.Failed, len(g.Cases), err)
	case err == nil && g.Passed == 0:
		err = errors.New("no case ran")
	}
	if err != nil {
		g.Error = err.Error()
	}
	return err
}

var (
	caseLine  = regexp.MustCompile(`^=== (?:RUN|NAME|CONT) +TestXLAGolden(Mixed)?/(\S+)`)
	endLine   = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): TestXLAGolden(Mixed)?/(\S+) `)
	worstLine = regexp.MustCompile(`worst deviation over (\d+) steps: loss (\S+), grad_norm (\S+)$`)
)

// parseGolden reads the logs of the test program, all of them or their beginnings.
func parseGolden(log string) *goldenReport {
	g := &goldenReport{Cases: []*goldenCase{}}
	all := map[string]*goldenCase{}
	find := func(mixed, name string) *goldenCase {
		c := all[mixed+name]
		if c == nil {
			c = &goldenCase{Name: name, DType: "float32", Result: "unfinished"}
			if mixed != "" {
				c.DType = "bfloat16"
			}
			all[mixed+name] = c
			g.Cases = append(g.Cases, c)
		}
		return c
	}
	var current *goldenCase
	for line := range strings.Lines(log) {
		line = strings.TrimRight(strings.TrimLeft(line, "\x16"), "\r\n") // test2json's mark
		if m := caseLine.FindStringSubmatch(line); m != nil {
			current = find(m[1], m[2])
		} else if m := endLine.FindStringSubmatch(line); m != nil {
			c := find(m[2], m[3])
			c.Result = m[1]
			switch c.Result {
			case "PASS":
				g.Passed++
				c.Messages = nil
			case "FAIL":
				g.Failed++
			default:
				g.Skipped++
			}
		} else if m := worstLine.FindStringSubmatch(line); m != nil && current != nil {
			current.Steps, _ = strconv.Atoi(m[1])
			current.Loss, current.GradNorm = finite(m[2]), finite(m[3])
		} else if current != nil && strings.HasPrefix(line, "    ") && len(current.Messages) < 5 {
			current.Messages = append(current.Messages, tail(line, 500))
		}
	}
	return g
}

// finite parses a number, nil if it is none that JSON has.
func finite(s string) *float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	return &v
}

// curve trains on the device and on cpu and compares the losses.
func (h *harness) curve(ctx context.Context) (err error) {
	c := &curveReport{Config: "gpt2", Steps: 20}
	long := 100
	if h.small {
		c.Config, c.Steps, long = "A", 4, 8
	}
	h.report.Curve = c
	defer func() {
		if err != nil {
			c.Error = err.Error()
		}
	}()
	run := func(steps int, args ...string) (curveRun, error) {
		args = append(args, "--warmup", "0", "--steps", strconv.Itoa(steps))
		o, err := h.triremeChild(h.budget, args...).object(ctx)
		return curveRun{steps, number(o, "loss_first"), number(o, "loss_last"), number(o, "step_ms")}, err
	}
	for _, steps := range []int{c.Steps, long} {
		r, err := run(steps, h.stepArgs(c.Config, "float32")...)
		if err != nil {
			return fmt.Errorf("%d steps on %s: %w", steps, h.device, err)
		}
		c.Runs = append(c.Runs, r)
		if err := h.write(); err != nil {
			return err
		}
	}
	r, err := run(c.Steps, "bench", "step", "--json", "--config", c.Config, "--dtype", "float32", "--threads", strconv.Itoa(runtime.GOMAXPROCS(0)))
	if err != nil {
		return fmt.Errorf("%d steps on cpu: %w", c.Steps, err)
	}
	c.CPU = &r
	first, last := math.Abs(c.Runs[0].LossFirst/r.LossFirst-1), math.Abs(c.Runs[0].LossLast/r.LossLast-1)
	c.First, c.Last = &first, &last
	return nil
}

func number(o map[string]any, key string) float64 {
	v, _ := o[key].(float64)
	return v
}
