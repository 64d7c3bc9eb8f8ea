package verify

import (
	"fmt"
	"io"
	"strings"
)

// titles describe kinds in the summary.
var titles = map[Kind]string{
	Ranks:        "numbers of ranks and strategies",
	Threads:      "threads per rank",
	Transport:    "another transport",
	Recompute:    "kinds of recomputation",
	Offload:      "optimizer state and parameters in files",
	Resume:       "stopped and resumed, once and three times, also with other ranks and strategies",
	MicroBatches: "another size of micro-batches",
}

// Markdown writes a summary for a README, and the table of all runs.
func (r Report) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`: %s %s\n\n", r.Command, sentence(r.Model+", "+r.experiment()), sentence(r.where()))
	b.WriteString("| compared with the reference | runs | equal in every bit |\n|---|---|---|\n")
	for _, k := range Kinds() {
		rows := r.of(k)
		if len(rows) == 0 {
			continue
		}
		equal, within, differ := tally(rows)
		text := fmt.Sprint(equal)
		if within > 0 {
			text += fmt.Sprintf("; %d within %g (%.1e)", within, rows[0].Tolerance, float64(rows[0].Largest))
		}
		if differ > 0 {
			text += fmt.Sprintf("; %d **not equal**", differ)
		}
		fmt.Fprintf(&b, "| %s | %d | %s |\n", titles[k], len(rows), text)
	}
	b.WriteString("\n")
	for _, line := range r.conclusions() {
		fmt.Fprintf(&b, "- %s\n", sentence(line))
	}
	fmt.Fprintf(&b, "\nSHA-256 of weights and optimizer state after step %d, in all equal runs:\n\n```text\n%s\n```\n\n", len(r.Steps), r.Digest)
	b.WriteString("| run | differs from the reference in | result | digest |\n|---|---|---|---|\n")
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "| %s | `%s` | %s | `%s` |\n", row.Kind, row.Differs, row.result(), short(row.Digest))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// of returns the rows of a kind.
func (r Report) of(k Kind) (out []Row) {
	for _, row := range r.Rows {
		if row.Kind == k {
			out = append(out, row)
		}
	}
	return out
}

// sentence starts a line with a capital and ends it with a full stop.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }
