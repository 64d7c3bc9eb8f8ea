package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"trireme/internal/pjrt"
	"trireme/internal/pjrt/plugin"
)

// probeTime limits the loading of a plug-in, which takes a second or two.
const probeTime = time.Minute

// probe loads a plug-in in a process of its own, since a broken one ends the process that loads it.
func probe(ctx context.Context, file string) (facts pluginFacts, err error) {
	exe, err := os.Executable()
	if err != nil {
		return facts, err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, exe, "doctor", "devices", "--load", "--plugin", file)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	switch err := cmd.Run(); {
	case ctx.Err() != nil:
		return facts, fmt.Errorf("loading it takes more than %v", probeTime)
	case cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == CodeFailed:
		first, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		if _, why, ok := strings.Cut(first, ": cannot be loaded: "); ok {
			first = why
		}
		return facts, errors.New(first)
	case err != nil:
		return facts, fmt.Errorf("loading it ended a process: %v", err)
	}
	return facts, json.Unmarshal(stdout.Bytes(), &facts)
}

// loadPlugin loads a plug-in as a run does and returns its facts.
func loadPlugin(s plugin.System, file string) (facts pluginFacts, err error) {
	found, err := plugin.Find(s, plugin.Other, file, 0)
	if err != nil {
		return facts, err
	}
	if err := found.Prepare(plugin.GPUs{}); err != nil {
		return facts, &Exit{CodeFailed, err}
	}
	p, err := pjrt.Load(found.Path)
	if err != nil {
		return facts, &Exit{CodeFailed, err}
	}
	attributes, err := p.Attributes()
	if err != nil {
		return facts, &Exit{CodeFailed, err}
	}
	major, minor := p.Version()
	facts.API = fmt.Sprintf("%d.%d", major, minor)
	if v, ok := attributes["cuda_version"].(int64); ok {
		facts.CUDA = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	}
	if v, ok := attributes["stablehlo_current_version"].([]int64); ok {
		facts.StableHLO = strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", "."), "[]")
	}
	return facts, nil
}
