package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"html"
	"slices"
	"strings"

	"trireme/internal/bench"
)

// group has the bars of a model, a type, a number of threads and an instruction set.
type group struct {
	config, label string
	series        []series // Trireme's first
}

// series is a bar: tokens per second in each run.
type series struct {
	program int // in programs
	speeds  []float64
	ratio   float64 // of Trireme, by pairs; 0 is Trireme
}

// programs are the series in order, with their class in style.
var programs = []struct{ name, class string }{{"Trireme", "trireme"}, {"PyTorch compiled", "compiled"}, {"PyTorch eager", "eager"}}

// groups collects the training steps of all tables, by model.
func (r *results) groups() []*group {
	var out []*group
	for _, t := range r.Tables {
		program := slices.IndexFunc(programs, func(p struct{ name, class string }) bool { return p.class == t.Peer })
		if t.Comparison != "step" || program < 0 {
			continue
		}
		for _, w := range t.Rows {
			if w.Metric != "tokens_per_s" {
				continue
			}
			s := setup{dtype: t.DType, instructions: t.Instructions, matmul: cmp.Or(t.Products, "auto")}
			label := s.name() + ", " + count(w.Threads, "thread")
			i := slices.IndexFunc(out, func(g *group) bool { return g.config == w.Config && g.label == label })
			if i < 0 {
				out = append(out, &group{w.Config, label, []series{{}}})
				i = len(out) - 1
			}
			g := out[i]
			g.series[0].speeds = append(g.series[0].speeds, w.Ours...)
			g.series = append(g.series, series{program, w.Theirs, median(w.ratios())})
		}
	}
	for _, g := range out {
		slices.SortStableFunc(g.series, func(a, b series) int { return cmp.Compare(a.program, b.program) })
	}
	slices.SortStableFunc(out, func(a, b *group) int { return cmp.Compare(a.config, b.config) })
	return out
}

const style = `<style>text{fill:#111827}.muted{fill:#4b5563}.page{fill:#ffffff}.trireme{fill:#15803d}.compiled{fill:#2563eb}.eager{fill:#94a3b8}.range{stroke:#111827;fill:none}
@media(prefers-color-scheme:dark){text{fill:#e5e7eb}.muted{fill:#9ca3af}.page{fill:#16181d}.trireme{fill:#22c55e}.compiled{fill:#60a5fa}.eager{fill:#64748b}.range{stroke:#e5e7eb}}</style>`

// draw returns a chart of the training steps as SVG: a bar per program with the median of its runs and, as a
// line, their range. Bars of a model have one scale.
func (r *results) draw() ([]byte, error) {
	groups := r.groups()
	if len(groups) == 0 {
		return nil, errors.New("no training steps to draw. try: results of step")
	}
	const left, width, right, bar, gap = 190, 380, 190, 15, 12
	var b bytes.Buffer
	y := 96
	text := func(x, y int, class, s string) {
		fmt.Fprintf(&b, `<text x="%d" y="%d"%s>%s</text>`+"\n", x, y, class, html.EscapeString(s))
	}
	drawn := make([]bool, len(programs))
	for i, g := range groups {
		if i == 0 || groups[i-1].config != g.config {
			y += 24
			text(16, y, ` font-weight="bold"`, describeModel(g.config))
			y += 12
		}
		scale := width / fastest(groups, g.config)
		text(16, y+bar*len(g.series)/2+4, "", g.label)
		for _, s := range g.series {
			p, m := programs[s.program], median(s.speeds)
			drawn[s.program] = true
			fmt.Fprintf(&b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"><title>%s %s %s: %.4g tokens/s</title></rect>`+"\n", p.class, left, y, m*scale, bar-2, p.name, html.EscapeString(g.config), html.EscapeString(g.label), m)
			low, high := left+slices.Min(s.speeds)*scale, left+slices.Max(s.speeds)*scale
			if len(s.speeds) > 1 {
				fmt.Fprintf(&b, `<path class="range" d="M%.1f %dH%.1fM%.1f %dv6M%.1f %dv6"/>`+"\n", low, y+bar/2, high, low, y+bar/2-3, high, y+bar/2-3)
			}
			value := fmt.Sprintf("%.0f", m)
			if s.ratio > 0 {
				value += fmt.Sprintf(" (ratio %.2f)", s.ratio)
			}
			text(int(high)+8, y+bar-4, ` class="muted"`, value)
			y += bar
		}
		y += gap
	}
	height := y + 6
	var head bytes.Buffer
	fmt.Fprintf(&head, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="Tokens per second of training" font-family="sans-serif" font-size="12">`+"\n%s\n", left+width+right, height, left+width+right, height, style)
	fmt.Fprintln(&head, `<rect class="page" width="100%" height="100%"/>`)
	fmt.Fprintln(&head, `<text x="16" y="26" font-size="15">Tokens per second of training: median and range of the runs; ratio of Trireme to PyTorch</text>`)
	for i, line := range []string{r.Processor.String(), strings.Join(r.versions(), "; ")} {
		fmt.Fprintf(&head, `<text x="16" y="%d" class="muted" font-size="11">%s</text>`+"\n", 46+16*i, html.EscapeString(line))
	}
	x := 16
	for i, p := range programs {
		if !drawn[i] {
			continue
		}
		fmt.Fprintf(&head, `<rect class="%s" x="%d" y="82" width="12" height="12"/><text x="%d" y="92">%s</text>`+"\n", p.class, x, x+17, p.name)
		x += 40 + 7*len(p.name)
	}
	head.Write(b.Bytes())
	head.WriteString("</svg>\n")
	return head.Bytes(), nil
}

// fastest is the highest speed of a model's runs.
func fastest(groups []*group, config string) float64 {
	out := 1e-9 // speeds of a file may be 0
	for _, g := range groups {
		for _, s := range g.series {
			if g.config == config {
				out = max(out, slices.Max(s.speeds))
			}
		}
	}
	return out
}

// describeModel names a model and its shape.
func describeModel(config string) string {
	c, ok := bench.StepConfigs[config]
	if !ok {
		return config
	}
	return fmt.Sprintf("%s: %d layers, width %d, vocabulary %d, %d x %d tokens", config, c.Layers, c.Hidden, c.Vocab, c.B, c.T)
}
