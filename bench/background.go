package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"trireme/internal/bench"
	"trireme/internal/rundir"
	"trireme/monitor"
)

// background compares training steps of model C, beside which checkpoints are written, with steps without checkpoints.
func (h *harness) background(ctx context.Context) error {
	config, err := h.writeRun()
	if err != nil {
		return err
	}
	t := &table{Title: "Checkpoints in the background, model C, seconds", OurName: "with saves", TheirName: "without", Comparison: "checkpoint"}
	return h.table(t, func(t *table) error {
		pairs, err := h.alternate(ctx, t.Title, h.saving(config, true), h.saving(config, false))
		if err != nil {
			return err
		}
		steps, err := t.row("a step, with all between steps", pairs, "step_s")
		if err != nil {
			return err
		}
		stalls, wrote := row{Figure: "stall of a save, and a step", Metric: "stall_s", Theirs: steps.Theirs}, []float64(nil)
		for _, p := range pairs {
			stall, err := number(p.ours, "stall_s")
			if err != nil {
				return err
			}
			write, err := number(p.ours, "write_s")
			if err != nil {
				return err
			}
			stalls.Ours, wrote = append(stalls.Ours, stall), append(wrote, write)
		}
		t.Notes = append(t.Notes, fmt.Sprintf("A checkpoint of 12 bytes per parameter was written in %.3g s.", median(wrote)))
		return h.add(t, steps, stalls)
	})
}

// writeRun writes the configuration of a run of model C on random tokens and returns its path.
func (h *harness) writeRun() (string, error) {
	c := bench.StepConfigs["C"]
	m, err := c.Config()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(h.dir, "background")
	rows := filepath.Join(dir, "rows.jsonl")
	text, err := json.Marshal(object{
		"model":    object{"inline": json.RawMessage(m.JSON)},
		"data":     object{"path": rows, "sequence_length": c.T},
		"training": object{"micro_batch_size": c.B, "max_steps": h.runSteps()},
		"logging":  object{"tensorboard": false},
	})
	if err != nil {
		return "", err
	}
	config := filepath.Join(dir, "run.json")
	return config, errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(rows, randomRows(16, c.T, c.Vocab), 0o644), os.WriteFile(config, text, 0o644))
}

// randomRows returns rows of random tokens.
func randomRows(rows, tokens, vocab int) (out []byte) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range rows {
		ids := make([]int, tokens)
		for i := range ids {
			ids[i] = rng.IntN(vocab)
		}
		line, _ := json.Marshal(object{"input_ids": ids}) // cannot fail
		out = append(append(out, line...), '\n')
	}
	return out
}

// runSteps is the number of steps of a run: two saves are followed by steps, and the last one is not counted.
func (h *harness) runSteps() int { return 3*max(2, h.steps) - 1 }

// saving trains, with saves in the background or without, and returns the seconds per step after the first save, of
// everything from the record of one step to the next, and the means of the seconds that a save stalled the steps and wrote.
func (h *harness) saving(config string, saves bool) measurement {
	every := max(2, h.steps)
	dir := filepath.Join(h.dir, "background", "run")
	args := []string{"train", "--output_dir", dir, "--config", config}
	if saves {
		args = append(args, "--set", "checkpoint.async=true", "--set", "checkpoint.keep_last_n=1", "--set", "checkpoint.save_every_n_steps="+strconv.Itoa(every))
	}
	run := h.ours(args...)
	return func(ctx context.Context) (object, error) {
		defer os.RemoveAll(dir)
		if _, err := run(ctx); err != nil {
			return nil, err
		}
		step, err := secondsPerStep(dir, int64(every))
		if err != nil || !saves {
			return object{"step_s": step}, err
		}
		stall, write, err := backgroundSaves(dir)
		return object{"step_s": step, "stall_s": stall, "write_s": write}, err
	}
}

// secondsPerStep reads the records of a run: the mean from that of step first to the last one.
func secondsPerStep(dir string, first int64) (float64, error) {
	text, err := os.ReadFile(filepath.Join(dir, rundir.Metrics))
	if err != nil {
		return 0, err
	}
	var from, to *monitor.Record
	for line := range bytes.Lines(text) {
		r, _, err := monitor.Parse(line)
		if err != nil {
			return 0, err
		}
		if r != nil && r.Step == first {
			from = r
		}
		if r != nil {
			to = r
		}
	}
	if from == nil || to.Step <= first {
		return 0, fmt.Errorf("%s has no steps after step %d", dir, first)
	}
	return to.Time.Sub(from.Time).Seconds() / float64(to.Step-from.Step), nil
}

// backgroundSaves reads the events of a run: the means of its saves in the background.
func backgroundSaves(dir string) (stall, write float64, err error) {
	text, err := os.ReadFile(filepath.Join(dir, rundir.Events))
	if err != nil {
		return 0, 0, err
	}
	n := 0.0
	for line := range bytes.Lines(text) {
		e, err := monitor.ParseEvent(line)
		if err != nil {
			return 0, 0, err
		}
		if e.WriteSeconds > 0 {
			stall, write, n = stall+e.StallSeconds, write+e.WriteSeconds, n+1
		}
	}
	if n == 0 {
		return 0, 0, fmt.Errorf("%s has no checkpoint that was written in the background", dir)
	}
	return stall / n, write / n, nil
}
