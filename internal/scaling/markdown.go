package scaling

import (
	"fmt"
	"io"
	"strings"
)

// Markdown writes the report as a page that shows scaling.svg beside it.
func (r Report) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Scaling of %s\n\n", r.Config)
	fmt.Fprintf(&b, "%s on %s (%d cores, %s), %s. %s, transport %s, %s.\n\n", r.Model, r.Processor, r.Cores, r.System, r.Date, r.Version, r.Transport, r.threads())
	fmt.Fprintf(&b, "%s; in each round every trial runs once, %s after %d that are not measured. A trial's speed is that of its median step, a figure of the tables the median over rounds. %s\n\n", count(r.Rounds, "round", "s"), count(r.Steps, "step", "s"), r.Warmup, r.Experiment)
	fmt.Fprintf(&b, "```text\n%s\n```\n\n![efficiency and where the rest went](scaling.svg)\n\n", r.Command)
	fmt.Fprint(&b, "## Throughput, efficiency and memory\n\n")
	table := func(head []string, rows [][]string) {
		fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
		for _, c := range rows {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(c, " | "))
		}
		fmt.Fprintln(&b)
	}
	var cells, lost [][]string
	for _, row := range r.Rows {
		cells = append(cells, row.cells())
	}
	for _, row := range r.scaled() {
		lost = append(lost, row.lostCells())
	}
	table(header(), cells)
	fmt.Fprintf(&b, "Efficiency is the throughput over that of one rank times the ranks; the range is that of the rounds. Predicted is tokens/s by the rates of trireme bench machine, as trireme plan computes it. Memory is the peak of tensors of the rank with most. %s.\n\n", capital(r.losses()))
	fmt.Fprint(&b, "## Lost efficiency\n\nIn percent of the ideal throughput. A row's causes sum to its loss; a negative share is a gain.\n\n")
	table(lostHeader(), lost)
	fmt.Fprint(&b, `- comm: the slowest rank waits for data of collectives.
- waiting: the median rank waits for the slowest one.
- less work: one rank alone, with the micro-batches that it has among the ranks, is slower per token than with all of them.
- memory: one rank alone is faster than N copies of it at the same time, which share memory, caches and the clock, but exchange nothing.
- rest: all other causes. It includes the processor time of communication where no core is free for it, and is negative where a sharded optimizer saves work.
`)
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "\nNote: %s.\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
