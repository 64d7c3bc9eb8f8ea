package monitor

import (
	"fmt"
	"strings"
	"time"

	"trireme/trace"
)

// Reports prints what DeepSpeed's wall_clock_breakdown, comms_logger and flops_profiler print: the split of the
// time, the table of collectives and the FLOPs of a step.
type Reports struct {
	c     Config
	print func(text string)

	steps   int // since the last line
	seconds float64
	split   trace.Split

	all   int // steps of ops
	ops   map[string]trace.CommOp
	ranks int
}

var _ Sink = (*Reports)(nil)

// NewReports prints the reports that c turns on, with line ends between lines.
func NewReports(c Config, print func(text string)) *Reports {
	return &Reports{c: c, print: print, ops: map[string]trace.CommOp{}}
}

// Record counts a step, and prints the reports that are due.
func (p *Reports) Record(r Record) error {
	if p.c.WallClockBreakdown && r.Split != nil {
		p.steps++
		p.seconds += r.StepSeconds
		p.split = sumSplit(p.split, *r.Split)
		if r.Step%int64(p.c.LogEveryNSteps) == 0 || r.Step == r.MaxSteps {
			p.print(p.breakdown(r.Step))
			p.steps, p.seconds, p.split = 0, 0, trace.Split{}
		}
	}
	if p.c.CommsTable {
		p.all++
		p.ranks = r.WorldSize
		for k, op := range r.CommOps {
			sum := p.ops[k]
			p.ops[k] = trace.CommOp{Count: sum.Count + op.Count, Bytes: sum.Bytes + op.Bytes, Seconds: sum.Seconds + op.Seconds, Exposed: sum.Exposed + op.Exposed}
		}
	}
	if p.c.FLOPsProfileStep > 0 && r.Step == int64(p.c.FLOPsProfileStep) {
		p.print(flopsProfile(r))
	}
	return nil
}

func sumSplit(a, b trace.Split) trace.Split {
	return trace.Split{
		Data: a.Data + b.Data, Forward: a.Forward + b.Forward, Backward: a.Backward + b.Backward, Recompute: a.Recompute + b.Recompute,
		Optimizer: a.Optimizer + b.Optimizer, Publish: a.Publish + b.Publish, Offload: a.Offload + b.Offload, Comm: a.Comm + b.Comm, Wait: a.Wait + b.Wait,
		Program: a.Program + b.Program, Other: a.Other + b.Other,
	}
}

// breakdown formats the mean split since the last one: milliseconds and the fraction of the step.
func (p *Reports) breakdown(step int64) string {
	n := float64(p.steps)
	text := fmt.Sprintf("time at step %d (rank 0, mean of %d): step %.2f ms =", step, p.steps, 1e3*p.seconds/n)
	between := " "
	for _, part := range SplitParts(p.split) {
		if part.Value > 0 {
			text += fmt.Sprintf("%s%s %.2f (%.1f%%)", between, part.Tag, 1e3*part.Value/n, 100*part.Value/p.seconds)
			between = " + "
		}
	}
	return text
}

// Evaluate does nothing.
func (p *Reports) Evaluate(Evaluation) error { return nil }

// Note does nothing.
func (p *Reports) Note(string) error { return nil }

// Close prints the table of collectives.
func (p *Reports) Close() error {
	if p.c.CommsTable && p.all > 0 {
		p.print(p.table())
	}
	return nil
}

// table formats the collectives of rank 0 by operation and axis. exposed is the time that computation waited
// for them. algbw is bytes by time; busbw is the bandwidth of each link, as nccl-tests computes both.
func (p *Reports) table() string {
	if len(p.ops) == 0 {
		return fmt.Sprintf("collectives of rank 0 in %d steps: none", p.all)
	}
	lines := []string{
		fmt.Sprintf("collectives of rank 0 in %d steps:", p.all),
		fmt.Sprintf("%-16s %-10s %8s %12s %12s %12s %12s %10s %10s", "operation", "axis", "count", "mean size", "total ms", "mean ms", "exposed ms", "algbw GB/s", "busbw GB/s"),
	}
	for _, k := range sortedKeys(p.ops) {
		op := p.ops[k]
		name, axis, _ := strings.Cut(k, "/")
		bandwidth, bus := 0.0, "-"
		if op.Seconds > 0 {
			bandwidth = float64(op.Bytes) / op.Seconds / 1e9
		}
		if f, ok := p.busFactor(name); ok {
			bus = fmt.Sprintf("%.3f", f*bandwidth)
		}
		n := float64(max(1, op.Count))
		lines = append(lines, fmt.Sprintf("%-16s %-10s %8d %12s %12.2f %12.3f %12.2f %10.3f %10s", name, axis, op.Count, Bytes(op.Bytes/int64(n)), 1e3*op.Seconds, 1e3*op.Seconds/n, 1e3*op.Exposed, bandwidth, bus))
	}
	return strings.Join(lines, "\n")
}

// busFactor is the bytes on a link by the bytes of an operation over all ranks.
func (p *Reports) busFactor(op string) (float64, bool) {
	for k := range p.ops {
		if strings.HasSuffix(k, "/replicate") { // ranks are in two axes, whose sizes records do not have
			return 0, false
		}
	}
	n := float64(max(1, p.ranks))
	switch op {
	case "all_reduce":
		return 2 * (n - 1) / n, true
	case "all_gather", "reduce_scatter", "all_to_all":
		return (n - 1) / n, true
	}
	return 1, true
}

// flopsProfile formats a step's FLOPs: the model's, for all ranks, as MFU counts them.
func flopsProfile(r Record) string {
	flops := r.FLOPSPerSecond * r.StepSeconds
	text := fmt.Sprintf("flops at step %d: %s for %d tokens on %d ranks in %v", r.Step, SI(flops)+"FLOP", r.Tokens, r.WorldSize, time.Duration(r.StepSeconds*float64(time.Second)).Round(time.Microsecond))
	text += ", " + FLOPS(r.FLOPSPerSecond)
	if r.PeakFLOPS > 0 {
		text += fmt.Sprintf(" = %.1f%% of %s", 100*r.MFU, FLOPS(r.PeakFLOPS))
	}
	if r.Split != nil {
		text += fmt.Sprintf("; forward %.2f ms, backward %.2f ms, recompute %.2f ms, optimizer %.2f ms", 1e3*r.Split.Forward, 1e3*r.Split.Backward, 1e3*r.Split.Recompute, 1e3*r.Split.Optimizer)
	}
	return text
}
