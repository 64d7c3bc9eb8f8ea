package main

import (
	"bytes"
	"context"
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
	"time"
)

// harness measures. Its methods named like comparisons add tables to results.
type harness struct {
	options
	dir           string // temporary
	peer          *peer  // PyTorch; nil if no comparison needs it
	results       *results
	out, progress io.Writer
}

// measure runs the comparisons and prints their tables to out.
func (o options) measure(ctx context.Context, out, progress io.Writer) (*results, error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	h := &harness{options: o, dir: dir, out: out, progress: progress}
	for _, file := range []string{o.json, o.svg} {
		if err := writable(file); err != nil {
			return nil, err
		}
	}
	if o.trireme == "" {
		if h.trireme, err = build(ctx, dir, progress); err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(o.what, func(c comparison) bool { return c.torch }) {
		if h.peer, err = newPeer(ctx, pyTorch, o.python, dir, progress); err != nil {
			return nil, err
		}
	}
	if h.results, err = h.describe(ctx); err != nil {
		return nil, err
	}
	h.results.head(out)
	for _, c := range o.what {
		if err := c.run(h, ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return h.results, nil
}

// writable returns an error if a file cannot be written, before anything is measured.
func writable(file string) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// build builds trireme in dir and returns its path.
func build(ctx context.Context, dir string, progress io.Writer) (string, error) {
	program := filepath.Join(dir, "trireme")
	fmt.Fprintln(progress, "building trireme")
	c := command(ctx, "go", "build", "-buildvcs=false", "-o", program, "trireme/cmd/trireme")
	c.Env = append(c.Environ(), "CGO_ENABLED=0")
	if _, err := output(c); err != nil {
		return "", fmt.Errorf("cannot build trireme: %w. try: -trireme FILE", err)
	}
	return program, nil
}

// command is a process in a group of its own, which is killed when ctx is done.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel, c.WaitDelay = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }, 5*time.Second
	return c
}

// output returns the standard output of c. The error is the last line of the standard error, or else of the
// output.
func output(c *exec.Cmd) ([]byte, error) {
	var diagnostics bytes.Buffer
	c.Stderr = &diagnostics
	out, err := c.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		for _, text := range [][]byte{diagnostics.Bytes(), out} {
			if line := lastLine(text); line != "" {
				return nil, errors.New(line)
			}
		}
	}
	return out, err
}

func lastLine(text []byte) string {
	text = bytes.TrimSpace(text)
	return strings.TrimSpace(string(text[bytes.LastIndexByte(text, '\n')+1:]))
}

// object is a JSON object.
type object = map[string]any

// decode runs c and returns the JSON object in the last line of its output.
func decode(c *exec.Cmd, name string) (object, error) {
	out, err := output(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var o object
	if err := json.Unmarshal([]byte(lastLine(out)), &o); err != nil {
		return nil, fmt.Errorf("%s: the last line of its output is not a JSON object: %.100q", name, lastLine(out))
	}
	return o, nil
}

// number returns a number of an object by the path of keys to it.
func number(o any, keys ...string) (float64, error) {
	for _, k := range keys {
		m, _ := o.(object)
		o = m[k]
	}
	v, ok := o.(float64)
	if !ok {
		return 0, fmt.Errorf("its output has no number %s", strings.Join(keys, "."))
	}
	return v, nil
}

// measurement is a run of a program.
type measurement func(context.Context) (object, error)

// ours runs trireme with args.
func (h *harness) ours(args ...string) measurement {
	return func(ctx context.Context) (object, error) {
		return decode(command(ctx, h.trireme, append(args, "--json")...), "trireme "+strings.Join(args[:min(2, len(args))], " "))
	}
}

// pair has the results of a run of each side.
type pair struct{ ours, theirs object }

// alternate runs both sides h.pairs times, and names them what in the progress. Every second pair begins with theirs: a disk or
// a processor that slows down under load gives the first run of a pair more.
func (h *harness) alternate(ctx context.Context, what string, ours, theirs measurement) ([]pair, error) {
	pairs := make([]pair, h.pairs)
	for i := range pairs {
		fmt.Fprintf(h.progress, "%s: pair %d of %d\n", what, i+1, h.pairs)
		runs := []struct {
			measure measurement
			result  *object
		}{{ours, &pairs[i].ours}, {theirs, &pairs[i].theirs}}
		if i%2 == 1 {
			slices.Reverse(runs)
		}
		for _, r := range runs {
			var err error
			if *r.result, err = r.measure(ctx); err != nil {
				return nil, err
			}
		}
	}
	return pairs, nil
}

// row collects a number of both sides of each pair.
func (t *table) row(figure string, pairs []pair, keys ...string) (row, error) {
	r := row{Figure: figure, Metric: keys[len(keys)-1]}
	for _, p := range pairs {
		a, err := number(p.ours, keys...)
		if err != nil {
			return r, fmt.Errorf("%s: %w", t.OurName, err)
		}
		b, err := number(p.theirs, keys...)
		if err != nil {
			return r, fmt.Errorf("%s: %w", t.TheirName, err)
		}
		r.Ours, r.Theirs = append(r.Ours, a), append(r.Theirs, b)
	}
	return r, nil
}

// table adds a table, which measure fills, and prints it when that ends, without an error or with one.
func (h *harness) table(t *table, measure func(*table) error) error {
	h.results.Tables = append(h.results.Tables, t)
	err := measure(t)
	if len(t.Rows) > 0 {
		t.print(h.out)
	}
	return err
}

// add adds rows to a table and saves all results.
func (h *harness) add(t *table, rows ...row) error {
	t.Rows = append(t.Rows, rows...)
	if h.json == "" {
		return nil
	}
	return h.results.save(h.json)
}

// count returns "1 thread", "2 threads".
func count(n, noun string) string {
	if i, err := strconv.Atoi(n); err == nil && i == 1 {
		return n + " " + noun
	}
	return n + " " + noun + "s"
}
