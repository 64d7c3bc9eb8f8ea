package scaling

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Report is an experiment's result.
type Report struct {
	Schema     string   `json:"schema"`
	Config     string   `json:"config"` // the configuration's file
	Model      string   `json:"model"`  // family and parameters
	Command    string   `json:"command"`
	Date       string   `json:"date"`      // UTC, RFC 3339
	Processor  string   `json:"processor"` // of this machine
	Cores      int      `json:"cores"`
	System     string   `json:"system"`  // operating system and architecture
	Version    string   `json:"version"` // of this program
	Transport  string   `json:"transport"`
	Threads    int      `json:"threads"` // per rank; 0: the device is no CPU
	Tokens     int      `json:"tokens_per_micro_batch"`
	Steps      int      `json:"steps"`  // measured per trial
	Warmup     int      `json:"warmup"` // not measured
	Rounds     int      `json:"rounds"`
	Experiment string   `json:"experiment"` // how work grows
	Notes      []string `json:"notes,omitempty"`
	Rows       []Row    `json:"rows"`
}

// causes are the columns of lost efficiency.
var causes = []struct {
	name, short, color string
	of                 func(Lost) float64
}{
	{"exposed communication", "comm", "#c2410c", func(l Lost) float64 { return l.Communication }},
	{"waiting for the slowest rank", "waiting", "#b45309", func(l Lost) float64 { return l.Waiting }},
	{"less work per rank", "less work", "#7c3aed", func(l Lost) float64 { return l.LessWork }},
	{"shared memory bandwidth", "memory", "#0e7490", func(l Lost) float64 { return l.MemoryBandwidth }},
	{"the rest", "rest", "#6b7280", func(l Lost) float64 { return l.Rest }},
}

// Print writes the tables for a terminal.
func (r Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s; %s in each of %s, %s\n", r.Config, r.Model, count(r.Steps, "step", "s"), count(r.Rounds, "round", "s"), r.threads())
	fmt.Fprintf(w, "%s\n\n", r.Experiment)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(cells []string) { fmt.Fprintln(t, strings.Join(cells, "\t")+"\t") }
	line(header())
	for _, row := range r.Rows {
		line(row.cells())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nlost efficiency, percent of the ideal throughput (a negative share is a gain):\n")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	line(lostHeader())
	for _, row := range r.scaled() {
		line(row.lostCells())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.losses())
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	return err
}

func (r Report) threads() string {
	if r.Threads == 0 {
		return "one device per rank"
	}
	return count(r.Threads, "thread", "s") + " per rank"
}

// scaled returns the rows of several ranks.
func (r Report) scaled() []Row {
	var out []Row
	for _, row := range r.Rows {
		if row.World > 1 {
			out = append(out, row)
		}
	}
	return out
}

func header() []string {
	return []string{"scaling", "type", "strategy", "ranks", "tokens/s", "efficiency", "range", "predicted", "off by", "memory/rank", "of one rank's", "1/N", "loss"}
}

func (r Row) cells() []string {
	loss := "not finite"
	if r.Loss != nil {
		loss = fmt.Sprintf("%.6f", *r.Loss)
	}
	predicted, off := "-", "-"
	if r.Predicted > 0 && r.Tokens > 0 {
		predicted, off = fmt.Sprintf("%.0f", r.Predicted), fmt.Sprintf("%+.1f%%", 100*(r.Predicted/r.Tokens-1))
	}
	return []string{
		string(r.Mode), r.DType, r.Strategy, fmt.Sprint(r.World), fmt.Sprintf("%.0f", r.Tokens), fmt.Sprintf("%.3f", r.Efficiency),
		fmt.Sprintf("%.3f-%.3f", r.EfficiencyMin, r.EfficiencyMax), predicted, off, fmt.Sprintf("%.1f MiB", float64(r.Memory)/(1<<20)),
		fmt.Sprintf("%.3f", r.MemoryShare), fmt.Sprintf("%.3f", 1/float64(r.World)), loss,
	}
}

func lostHeader() []string {
	out := []string{"scaling", "type", "strategy", "ranks", "lost"}
	for _, c := range causes {
		out = append(out, c.short)
	}
	return append(out, "slowest")
}

func (r Row) lostCells() []string {
	out := []string{string(r.Mode), r.DType, r.Strategy, fmt.Sprint(r.World), percent(r.Lost.Sum())}
	for _, c := range causes {
		out = append(out, percent(c.of(r.Lost)))
	}
	slow := "-"
	if r.SlowRank != nil {
		slow = fmt.Sprintf("rank %d", *r.SlowRank)
	}
	return append(out, slow)
}

func percent(v float64) string { return fmt.Sprintf("%.1f%%", v+0) }

// losses says whether runs that must have the same losses have them.
func (r Report) losses() string {
	for _, row := range r.Rows {
		if !row.LossesEqual {
			return fmt.Sprintf("losses differ: %s scaling in %s is not the same run on every number of ranks or strategy (parallel.world_invariant: false allows that)", row.Mode, row.DType)
		}
	}
	return fmt.Sprintf("losses: equal in every bit in all runs with the same rows per step and type (%s, %s)", count(r.Steps+r.Warmup, "step", "s"), count(r.Rounds, "round", "s"))
}
