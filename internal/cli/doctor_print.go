package cli

import (
	"fmt"
	"io"
	"strings"
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
