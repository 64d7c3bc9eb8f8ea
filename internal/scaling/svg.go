package scaling

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// SVG draws a bar of 100% per row of several ranks: its efficiency, with the range over rounds, then the causes.
// Gains are left out.
func (r Report) SVG(w io.Writer) error {
	const left, width, bar, gap, top = 220, 560, 22, 14, 46
	rows := r.scaled()
	height := top + len(rows)*(bar+gap) + 64
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="13">`+"\n", left+width+70, height, left+width+70, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n")
	fmt.Fprintf(&b, `<text x="16" y="26" font-size="15" fill="#111827">%s</text>`+"\n", html.EscapeString("Scaling of "+r.Config+": efficiency, and where the rest went"))
	for i, row := range rows {
		y := top + i*(bar+gap)
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" fill="#111827">%s</text>`+"\n", left-10, y+16, html.EscapeString(fmt.Sprintf("%s %s %s, %d", row.Mode, row.DType, row.Strategy, row.World)))
		x := float64(left)
		part := func(share float64, color, name string) {
			if share <= 0 {
				return
			}
			n := min(share*width, float64(left+width)-x)
			fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"><title>%s %.1f%%</title></rect>`+"\n", x, y, max(n, 0), bar, color, name, 100*share)
			x += n
		}
		part(row.Efficiency, "#15803d", "efficiency")
		for _, c := range causes {
			part(c.of(row.Lost)/100, c.color, c.name)
		}
		at := func(e float64) float64 { return left + width*min(1, max(0, e)) }
		fmt.Fprintf(&b, `<path d="M%.1f %dH%.1fM%.1f %dv8M%.1f %dv8" stroke="#111827" fill="none"/>`+"\n", at(row.EfficiencyMin), y+bar/2, at(row.EfficiencyMax), at(row.EfficiencyMin), y+bar/2-4, at(row.EfficiencyMax), y+bar/2-4)
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#111827">%.1f%%</text>`+"\n", left+width+8, y+16, 100*row.Efficiency)
	}
	y, x := height-24, 16
	legend := func(color, name string) {
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="12" height="12" fill="%s"/><text x="%d" y="%d" fill="#111827">%s</text>`+"\n", x, y-11, color, x+17, y, name)
		x += 30 + 7*len(name)
	}
	legend("#15803d", "efficiency")
	for _, c := range causes {
		legend(c.color, c.name)
	}
	fmt.Fprintln(&b, "</svg>")
	_, err := io.WriteString(w, b.String())
	return err
}
