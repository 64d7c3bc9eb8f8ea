package verdict

import (
	"slices"
	"strings"

	"trireme/internal/runlog"
)

// Of judges a run by its directory.
func Of(run *runlog.Run) (Report, error) {
	in, err := Read(run)
	if err != nil {
		return Report{}, err
	}
	return Judge(in), nil
}

// needed lists the metrics that Judge reads, and neededLate prefixes of those that it reads of the last steps.
var needed = []string{
	"loss", "grad_norm", "lr", "skipped", "loss_scale", "samples", "tokens", "step_seconds", "save_seconds", "memory_save_seconds", "eval_seconds_between",
	"eval_loss", "eval_tokens", "time", "mfu", "data_fraction", "comm_fraction", "skew", "slow_rank", "rss", "memory_limit",
	"device.memory_used", "device.memory_total", "host.disk_free",
}

var neededLate = []string{"split.", "comm_ops.", "ranks.own.", "ranks.data.", "ranks.save."}

// Read returns the facts of a run.
func Read(run *runlog.Run) (in Input, err error) {
	in = Input{Dir: run.Dir(), Metrics: map[string][]float64{}, Config: run.Config(), Running: run.Running()}
	var names, late []string
	for _, m := range run.Metrics() {
		if slices.Contains(needed, m) {
			names = append(names, m)
		} else if slices.ContainsFunc(neededLate, func(prefix string) bool { return strings.HasPrefix(m, prefix) }) {
			late = append(late, m)
		}
	}
	_, last, _ := run.Steps()
	for _, part := range []struct {
		from  int64
		names []string
	}{{0, names}, {max(0, last-2*speedSteps), late}} {
		columns, err := run.Columns(part.from, last, part.names...)
		if err != nil {
			return in, err
		}
		if part.from == 0 && in.Steps == nil {
			in.Steps = columns[0]
		}
		for i, name := range part.names {
			in.Metrics[name] = columns[i+1]
		}
	}
	loss, norm := in.Metrics["loss"], in.Metrics["grad_norm"]
	for i := range in.Steps {
		if isBad(loss, i) || isBad(norm, i) {
			if in.NonFinite++; in.NonFinite == 1 {
				in.FirstNonFinite = int64(in.Steps[i])
			}
		}
	}
	if in.Events, err = run.Events(); err != nil {
		return in, err
	}
	rec, _, err := run.Last()
	if rec != nil {
		in.MaxSteps = rec.MaxSteps
	}
	return in, err
}

// isBad reports whether a value is not finite, rather than missing.
func isBad(v []float64, i int) bool { return v != nil && v[i]-v[i] != 0 && !runlog.Missing(v[i]) }
