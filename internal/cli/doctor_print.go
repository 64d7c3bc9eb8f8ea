package cli

import (
	"fmt"
	"io"
	"strings"

	"trireme/internal/host"
)

// print writes the report as text.
func (r *devicesReport) print(w io.Writer) error {
	var b strings.Builder
	switch {
	case r.Driver == nil && r.unread:
		b.WriteString("cards: unknown\n")
	case r.Driver == nil:
		b.WriteString("cards: none (no NVIDIA driver)\n")
	case len(r.Cards) == 0:
		fmt.Fprintf(&b, "cards: none (driver %s, CUDA %s)\n", r.Driver.Version, r.Driver.CUDA)
	default:
		fmt.Fprintf(&b, "cards: %d (driver %s, CUDA %s)\n", len(r.Cards), r.Driver.Version, r.Driver.CUDA)
	}
	for _, c := range r.Cards {
		hidden := ""
		if !c.Visible {
			hidden = ", hidden by CUDA_VISIBLE_DEVICES"
		}
		fmt.Fprintf(&b, "  %d  %s, %.0f GiB, compute capability %s, %s%s\n", c.Index, c.Name, float64(c.Memory)/(1<<30), c.Compute, c.BusID, hidden)
	}
	fmt.Fprintf(&b, "plug-ins: %s\n", countOrNone(len(r.Plugins)))
	for _, p := range r.Plugins {
		p.print(&b)
	}
	if len(r.Looked) > 0 {
		fmt.Fprintf(&b, "searched:\n  %s\n", strings.Join(r.Looked, "\n  "))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	for _, name := range r.Usable {
		fmt.Fprintf(&b, "usable: --device %s\n", name)
	}
	for _, cmd := range r.Install {
		fmt.Fprintf(&b, "try: %s\n", cmd)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func countOrNone(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

func (p pluginReport) print(b *strings.Builder) {
	facts := ""
	for _, f := range []struct{ name, value string }{{"PJRT API", p.API}, {"CUDA", p.CUDA}, {"StableHLO", p.StableHLO}} {
		if f.value != "" {
			facts += ", " + f.name + " " + f.value
		}
	}
	if p.Error != "" {
		facts = ", cannot be loaded: " + p.Error
	}
	fmt.Fprintf(b, "  %s  %s (%s)%s\n", p.Kind, p.File, p.From, facts)
	for _, l := range p.Libraries {
		fmt.Fprintf(b, "    %s %s  %s\n", l.Name, l.Version, l.File)
	}
	if p.Data != "" {
		fmt.Fprintf(b, "    ptxas, libdevice  %s\n", p.Data)
	}
	for _, required := range []bool{true, false} {
		var names []string
		for _, m := range p.Missing {
			if m.Required == required {
				names = append(names, m.Name+" ("+m.Use+")")
			}
		}
		if len(names) == 0 {
			continue
		}
		label := map[bool]string{true: "missing", false: "missing, optional"}[required]
		pip, apt := p.packages(required)
		fmt.Fprintf(b, "    %s: %s\n      pip install %s\n      apt install %s\n", label, strings.Join(names, ", "), pip, apt)
	}
}

// print writes a line per finding, and a last line with their counts.
func (r *doctorReport) print(w io.Writer) error {
	var b strings.Builder
	name := r.Facts.Name
	if name == "" {
		name = "this host"
	}
	fmt.Fprintf(&b, "%s\n", name)
	printFindings(&b, r.Findings)
	fmt.Fprintf(&b, "%s\n", countFindings(r.Findings))
	_, err := io.WriteString(w, b.String())
	return err
}

func printFindings(b *strings.Builder, all []host.Finding) {
	for _, f := range all {
		fmt.Fprintf(b, "%-8s %s: %s\n", f.State, f.Check, f.Text)
		if f.Try != "" {
			fmt.Fprintf(b, "         try: %s\n", f.Try)
		}
	}
}

// countFindings describes the result: "no problems, 2 notes".
func countFindings(all []host.Finding) string {
	notes := 0
	for _, f := range all {
		if f.State == host.Note {
			notes++
		}
	}
	text := "no problems"
	if n := host.Problems(all); n > 0 {
		text = number(int64(n), "problem")
	}
	if notes > 0 {
		text += ", " + number(int64(notes), "note")
	}
	return text
}
