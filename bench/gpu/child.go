package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// child is a process with a time limit. It leads a process group, which is killed at the end.
type child struct {
	args  []string
	dir   string   // working directory; "" is this one's
	env   []string // added to this process's environment
	limit time.Duration
}

// run returns the standard output, what there is of it if the process fails. The error has the end of the
// standard error.
func (c child) run(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	if ctx.Err() != nil {
		return nil, errors.New("not started: no time is left")
	}
	began := time.Now()
	var out, diagnostics bytes.Buffer
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, &out, &diagnostics
	cmd.Env = append(cmd.Environ(), c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel, cmd.WaitDelay = kill, 5*time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	err := cmd.Wait()
	_ = kill() // processes that it left; none is the usual case
	switch {
	case err == nil:
		return out.Bytes(), nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("killed after %.0f s", time.Since(began).Seconds())
	case ctx.Err() != nil:
		err = errors.New("interrupted")
	}
	if s := tail(diagnostics.String(), 2000); s != "" {
		err = fmt.Errorf("%w: %s", err, s)
	}
	return out.Bytes(), err
}

// object runs the child and decodes the last line of its output, or all of it, as a JSON object.
func (c child) object(ctx context.Context) (map[string]any, error) {
	out, err := c.run(ctx)
	if err != nil {
		return nil, err
	}
	out = bytes.TrimSpace(out)
	var o map[string]any
	if json.Unmarshal(out, &o) == nil {
		return o, nil
	}
	if err := json.Unmarshal(out[bytes.LastIndexByte(out, '\n')+1:], &o); err != nil {
		return nil, fmt.Errorf("output is not a JSON object: %w: %s", err, tail(string(out), 200))
	}
	return o, nil
}

// tail returns the last n bytes of s, from the beginning of a line if one begins there.
func tail(s string, n int) string {
	s = strings.TrimSpace(s)
	if len(s) <= n {
		return s
	}
	s = strings.ToValidUTF8(s[len(s)-n:], "")
	if _, rest, ok := strings.Cut(s, "\n"); ok {
		s = rest
	}
	return s
}

// triremeChild is a trireme process on the device, or on cpu.
func (h *harness) triremeChild(limit time.Duration, args ...string) child {
	return child{args: append([]string{h.trireme}, args...), env: h.cacheEnv(), limit: limit}
}

// stepArgs are the arguments of `trireme bench step` on the device.
func (h *harness) stepArgs(config, dtype string) []string {
	args := []string{"bench", "step", "--json", "--config", config, "--dtype", dtype, "--device", h.device}
	if h.plugin != "" {
		args = append(args, "--plugin", h.plugin)
	}
	return args
}

// cacheEnv are variables that put the compiled programs of trireme, PyTorch and JAX below h.cache: the first
// start of a part compiles, later ones of the same program load.
func (h *harness) cacheEnv() []string {
	return []string{
		"XDG_CACHE_HOME=" + h.cache, "TORCHINDUCTOR_CACHE_DIR=" + h.cache + "/torch", "TRITON_CACHE_DIR=" + h.cache + "/triton",
		"JAX_COMPILATION_CACHE_DIR=" + h.cache + "/jax", "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore",
	}
}
