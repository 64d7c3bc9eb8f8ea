package preflight

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"trireme/internal/host"
	"trireme/monitor"
)

// Print writes the report: a paragraph, a table of the hosts, a matrix of the links, and the findings.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	if len(r.Hosts) > 1 {
		r.printHosts(&b)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-8s %s: %s\n", f.State, f.Check, f.Text)
		if f.Try != "" {
			fmt.Fprintf(&b, "         try: %s\n", f.Try)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) printHosts(b *strings.Builder) {
	fmt.Fprintf(b, "%s\n\n", r.Summary())
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "host\taddress\tinterface\tthreads\tmemory\tversion")
	for _, h := range r.Hosts {
		name, mtu := h.mtu()
		fmt.Fprintf(t, "%s\t%s\t%s (MTU %d)\t%d\t%s\t%s\n", h.Name, h.Address, name, mtu, h.Facts.Cores.Threads, monitor.Bytes(h.Facts.Memory.Available), h.Facts.Versions.Program)
	}
	t.Flush()
	b.WriteString("\n")
	r.printMatrix(b)
}

// Summary is the report in a paragraph.
func (r *Report) Summary() string {
	n := len(r.Hosts)
	ways, ok := n*(n-1), 0
	var slowest, fastest int64
	var longest, offset time.Duration
	for i := range r.Links {
		for j, l := range r.Links[i] {
			if i == j || l.State != Connected || l.Err != "" {
				continue
			}
			if ok++; ok == 1 || l.Speed < slowest {
				slowest = l.Speed
			}
			fastest, longest = max(fastest, l.Speed), max(longest, l.Latency)
			if i == 0 {
				offset = max(offset, l.Offset.Abs())
			}
		}
	}
	s := fmt.Sprintf("%d hosts, %d of %d directions connect", n, ok, ways)
	if ok > 0 {
		s += fmt.Sprintf(", %s to %s, round trips up to %v, clocks within %v", bits(slowest), bits(fastest), longest.Round(time.Microsecond), max(offset.Round(10*time.Microsecond), 10*time.Microsecond))
	}
	switch {
	case len(r.Sums) == 0:
		s += "; no all-reduce, because hosts do not reach each other"
	case r.sumsRight():
		s += fmt.Sprintf("; the all-reduce over TCP gives %v on every host, as it must", r.Sums[0].Want)
	}
	s += fmt.Sprintf(" (%.1f s). ", r.Seconds)
	notes := 0
	for _, f := range r.Findings {
		if f.State == host.Note {
			notes++
		}
	}
	switch {
	case r.Problems == 0 && notes == 0:
		return s + "No problems."
	case r.Problems == 0:
		return s + fmt.Sprintf("No problems, notes: %d.", notes)
	}
	return s + fmt.Sprintf("Problems: %d; the first: %s.", r.Problems, r.First().Text)
}

// First returns the first problem; nil if there is none.
func (r *Report) First() *Finding {
	for i, f := range r.Findings {
		if f.State == host.Problem {
			return &r.Findings[i]
		}
	}
	return nil
}

func (r *Report) sumsRight() bool {
	for _, s := range r.Sums {
		if s.Err != "" || s.Got != s.Want {
			return false
		}
	}
	return true
}

// maxMatrix is the number of hosts up to which the matrix of all links is printed.
const maxMatrix = 16

func (r *Report) printMatrix(b *strings.Builder) {
	if len(r.Hosts) > maxMatrix {
		fmt.Fprintf(b, "the links of %d hosts are in --json\n\n", len(r.Hosts))
		return
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "from \\ to")
	for _, h := range r.Hosts {
		fmt.Fprintf(t, "\t%s", h.Name)
	}
	fmt.Fprintln(t)
	for i, h := range r.Hosts {
		fmt.Fprint(t, h.Name)
		for j, l := range r.Links[i] {
			switch {
			case i == j:
				fmt.Fprint(t, "\t-")
			case l.State != Connected:
				fmt.Fprintf(t, "\t%s", strings.ToUpper(string(l.State)))
			case l.Err != "":
				fmt.Fprintf(t, "\tLARGE PACKETS LOST")
			default:
				fmt.Fprintf(t, "\t%s, %v", bits(l.Speed), l.Latency.Round(time.Microsecond))
			}
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	b.WriteString("\n")
}
