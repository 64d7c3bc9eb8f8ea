package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
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

// reference runs the reference runs of package train on the device, in float32 and bfloat16, each in a process
// of its own: most of their time is compilation on one processor, and a crash ends one of them only.
func (h *harness) reference(ctx context.Context) error {
	dirs, err := filepath.Glob("train/testdata/golden/*/case.json")
	if err != nil || len(dirs) == 0 {
		return errors.New("no train/testdata/golden here: run in the root of the repository")
	}
	var tests []string
	for _, dir := range dirs {
		name := filepath.Base(filepath.Dir(dir))
		if h.small && name != "llama-mha" && name != "gpt2" {
			continue
		}
		tests = append(tests, "^TestXLAGolden$/^"+name+"$", "^TestXLAGoldenMixed$/^"+name+"$")
	}
	log, err := h.tests(ctx, h.golden, "train", tests)
	g := parseGolden(log)
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

// tests runs a package's tests by patterns, each in a process, half the number of processors at once.
func (h *harness) tests(ctx context.Context, program, dir string, patterns []string) (log string, err error) {
	logs, errs := make([][]byte, len(patterns)), make([]error, len(patterns))
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(2, runtime.NumCPU()/2))
	for i, pattern := range patterns {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			logs[i], errs[i] = child{
				args:  []string{program, "-test.v=test2json", "-test.run", pattern}, // this form has results at once
				dir:   dir,
				env:   append(h.cacheEnv(), "TRAIN_TEST_DEVICE="+h.device, "TRAIN_TEST_PLUGIN="+h.plugin),
				limit: h.budget,
			}.run(ctx)
		})
	}
	wg.Wait()
	return string(slices.Concat(logs...)), errors.Join(errs...)
}

// conform runs the conformance suite on the device, in parts of the alphabet.
func (h *harness) conform(ctx context.Context) error {
	patterns := []string{"^TestConformance$/^[a-b]", "^TestConformance$/^[c-k]", "^TestConformance$/^[l-r]", "^TestConformance$/^s[a-s]", "^TestConformance$/^st", "^TestConformance$/^(s[u-z]|[t-z])"}
	if h.small {
		patterns = patterns[:1]
	}
	log, err := h.tests(ctx, h.conformance, "device", patterns)
	c := parseConformance(log)
	h.report.Conformance = c
	switch {
	case len(c.Failed) > 0:
		err = errors.Join(fmt.Errorf("%d operations failed", len(c.Failed)), err)
	case err == nil && c.Passed == 0:
		err = errors.New("no operation was tried")
	}
	if err != nil {
		c.Error = err.Error()
	}
	return err
}

var operationLine = regexp.MustCompile(`^ *--- (PASS|FAIL): TestConformance/([^/ ]+) \(`)

// parseConformance reads logs of the suite.
func parseConformance(log string) *conformance {
	c := &conformance{}
	for line := range strings.Lines(log) {
		line = strings.TrimRight(strings.TrimLeft(line, "\x16"), "\r\n") // test2json's mark
		switch m := operationLine.FindStringSubmatch(line); {
		case m != nil && m[1] == "PASS":
			c.Passed++
		case m != nil:
			c.Failed = append(c.Failed, m[2])
		case strings.Contains(line, "_test.go:") || strings.Contains(line, "suite.go:"):
			if len(c.Messages) < 20 {
				c.Messages = append(c.Messages, tail(strings.TrimSpace(line), 300))
			}
		}
	}
	return c
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
