package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"trireme/internal/durable"
	"trireme/internal/scaling"
	"trireme/planner"
	"trireme/train"
)

// predictRows adds predictions if the rates of this machine were measured in all types of the rows.
func predictRows(ctx context.Context, m *planner.Machine, pj planner.Job, cells []scaling.Cell, r scaling.Report) error {
	if m == nil || r.Threads == 0 {
		return nil
	}
	for i, c := range cells {
		transport := r.Transport
		if c.World == 1 {
			transport = "tcp" // not used
		}
		h, err := m.Hardware(c.DType, r.Threads, transport, nil)
		if err != nil {
			return nil //nolint:nilerr // this type or transport was not measured
		}
		h.Local = c.World // also if they share cores
		own := pj
		own.Config.Parallel.Strategy, own.Config.Precision.ParamDType = c.Own.Strategy, c.DType
		own.Config.Training.GlobalBatchSize, own.Config.Training.GradientAccumulationSteps = 0, c.Own.Accumulation
		own.Ranks, own.Local = c.World, c.World
		p, err := own.Predict(ctx, h)
		if err != nil {
			return err
		}
		r.Rows[i].Predicted = p.Tokens
	}
	return nil
}

// report returns the report without rows, and the job to predict.
func (f *benchScalingFlags) report(c *cobra.Command, j *job, e scaling.Experiment, threads int) (_ scaling.Report, pj planner.Job, err error) {
	if err := j.locateModel(c.Context(), c.ErrOrStderr()); err != nil {
		return scaling.Report{}, pj, err
	}
	config := j.model
	if config == nil {
		if config, err = j.readModel(); err != nil {
			return scaling.Report{}, pj, &Exit{CodeUsage, err}
		}
	}
	info, err := train.ModelInfo(config)
	if err != nil {
		return scaling.Report{}, pj, &Exit{CodeUsage, err}
	}
	positions, _ := j.positions(info.MaxPositions)
	v := readVersion()
	largest := e.Worlds[len(e.Worlds)-1]
	r := scaling.Report{
		Schema: "trireme.bench.scaling/1", Config: filepath.Base(f.config), Command: "trireme bench scaling " + strings.Join(argumentsWithout(c.Flags(), nil), " "),
		Model: fmt.Sprintf("%s with %s of width %d", config.Family.Name, number(int64(info.Layers), "layer"), info.Heads*info.HeadDim),
		Date:  time.Now().UTC().Format(time.RFC3339), Processor: processorName(), Cores: runtime.NumCPU(), System: v.Platform, Version: "trireme " + v.Version,
		Threads: threads, Tokens: j.cfg.Training.MaxTokens(positions), Steps: f.steps, Warmup: f.warmup, Rounds: f.rounds,
	}
	micro := func(n int) string {
		if n == 1 {
			return "1 micro-batch"
		}
		return fmt.Sprintf("%d micro-batches", n)
	}
	var how []string
	for _, m := range e.Modes {
		if m == scaling.Strong {
			how = append(how, fmt.Sprintf("strong scaling: %s of up to %d tokens per step over all ranks", micro(e.MicroBatches), r.Tokens))
		} else {
			how = append(how, fmt.Sprintf("weak scaling: %s of up to %d tokens per rank and step", micro(e.PerRank), r.Tokens))
		}
	}
	r.Experiment = strings.Join(how, "; ")
	if threads > 0 && largest*threads > runtime.NumCPU() {
		r.Notes = append(r.Notes, fmt.Sprintf("%d ranks of %d threads share %d cores: their efficiency is limited by the cores, which counts as shared memory bandwidth", largest, threads, runtime.NumCPU()))
	}
	load, err := otherWork(c.Context())
	if err != nil {
		return r, pj, err
	}
	if load != "" {
		r.Notes = append(r.Notes, "other programs used "+load+" before it began, which lowers these figures")
	}
	for _, n := range r.Notes {
		fmt.Fprintln(c.ErrOrStderr(), "note: "+n)
	}
	return r, planner.Job{Config: j.cfg, Model: config, Positions: positions, Rows: planner.Rows(info, j.cfg)}, nil
}

// writeScaling writes the files of a report.
func writeScaling(dir string, r scaling.Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return outputError(err)
	}
	var md, svg, object strings.Builder
	if err := r.Markdown(&md); err != nil {
		return err
	}
	if err := r.SVG(&svg); err != nil {
		return err
	}
	if err := writeJSON(&object, r); err != nil {
		return err
	}
	for name, text := range map[string]string{"scaling.md": md.String(), "scaling.svg": svg.String(), "scaling.json": object.String()} {
		if err := durable.WriteFile(filepath.Join(dir, name), []byte(text)); err != nil {
			return outputError(err)
		}
	}
	return nil
}

// processorName returns the processor's name, or its architecture.
func processorName() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return runtime.GOARCH
}
