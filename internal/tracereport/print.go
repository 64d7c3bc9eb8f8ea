package tracereport

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// duration formats seconds with three digits.
func duration(s float64) string {
	switch {
	case s >= 1000:
		return fmt.Sprintf("%.0f s", s)
	case s >= 1:
		return fmt.Sprintf("%.3g s", s)
	case s >= 1e-3:
		return fmt.Sprintf("%.3g ms", s*1e3)
	}
	return fmt.Sprintf("%.0f us", s*1e6)
}

// shownRanks is the number of ranks that Print has lines for.
const shownRanks = 8

// Print writes the report on one screen.
func (r *Report) Print(w io.Writer) error {
	steps := fmt.Sprintf("steps %d to %d", r.FirstStep, r.LastStep)
	switch {
	case int64(r.Steps) != r.LastStep-r.FirstStep+1:
		steps = fmt.Sprintf("%d steps from %d to %d", r.Steps, r.FirstStep, r.LastStep)
	case r.FirstStep == r.LastStep:
		steps = fmt.Sprintf("step %d", r.FirstStep)
	}
	ranks := "1 rank"
	if r.World > 1 {
		ranks = fmt.Sprintf("%d ranks", r.World)
	}
	fmt.Fprintf(w, "%s, %s: %s a step", ranks, steps, duration(r.Step))
	if r.Uncertainty > 0 {
		fmt.Fprintf(w, "; clocks within %s", duration(r.Uncertainty))
	}
	fmt.Fprintln(w)
	for _, n := range r.Notes {
		fmt.Fprint(w, wrapped("note: "+n))
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(name string, p Part) {
		fmt.Fprintf(t, "%s\t%s\t%.1f%%\t%s\t\n", left(name), duration(p.Seconds), 100*p.Share, duration(p.Without))
	}
	fmt.Fprintf(t, "%s\ttime\tshare\tstep without\t\n", left("a step"))
	for _, p := range r.Parts {
		name := p.Name
		if p.Detail != "" {
			name = "  " + p.Detail
		}
		line(name, p)
	}
	fmt.Fprintf(t, "%s\ttime\tshare\tstep without\t\n", left("longest units"))
	for _, p := range r.Units {
		line("  "+p.Detail, p)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	r.printRanks(w)
	_, err := fmt.Fprintf(w, "\n%s", wrapped("most to gain: "+r.Gain))
	return err
}

// nameWidth is the width of names. Those that are longer lack their middle: names of operators differ at the end.
const nameWidth = 40

// left pads a name on the right: the table aligns to the right.
func left(name string) string {
	if r := []rune(name); len(r) > nameWidth {
		name = string(r[:nameWidth/2-2]) + "..." + string(r[len(r)-nameWidth/2+1:])
	}
	return fmt.Sprintf("%-*s", nameWidth, name)
}

// width is the number of columns of the report. Only a path may be longer.
const width = 80

// wrapped divides a text at spaces to lines. Those after the first are indented.
func wrapped(text string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteString("\n  ")
			column = 2
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String() + "\n"
}

// printRanks writes a line for each rank, or for those that held up others most.
func (r *Report) printRanks(w io.Writer) {
	shown := slices.Clone(r.Ranks)
	if len(shown) > shownRanks {
		slices.SortStableFunc(shown, func(a, b Rank) int { return cmp.Compare(b.HeldUp, a.HeldUp) })
		shown = shown[:shownRanks]
	}
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "ms a step\ttotal\tcompute\texposed\thidden\twaiting\tdata\tsaving\tidle\tother\theld up\t")
	for _, k := range shown {
		fmt.Fprintf(t, "rank %d", k.Rank)
		other := k.Classes[Offload.String()] + k.Classes[Compile.String()] + k.Classes[Evaluation.String()]
		for _, s := range []float64{k.Seconds, k.Classes[Compute.String()], k.Classes[Exposed.String()], k.Hidden, k.Classes[Waiting.String()],
			k.Classes[Data.String()], k.Classes[Checkpoint.String()], k.Classes[Idle.String()], other, k.HeldUp} {
			fmt.Fprintf(t, "\t%.1f", s*1e3)
		}
		fmt.Fprintln(t, "\t")
	}
	t.Flush() // errors of w come up at the next write
	if n := len(r.Ranks) - len(shown); n > 0 {
		fmt.Fprintf(w, "the %d ranks that held up others most; --json has all %d\n", len(shown), len(r.Ranks))
	}
}
