package reportcard

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"

	"trireme/monitor"
)

var colors = []string{"#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f"}

const (
	svgWidth, svgHeight      = 720, 300
	left, right, top, bottom = 84, 15, 30, 40
	innerWidth, innerHeight  = svgWidth - left - right, svgHeight - top - bottom
)

// SVG draws lines over steps, each with the range of its buckets as a band. Values that are not finite are marked at the top.
// With logarithmic, the vertical axis is, if all values are positive.
func SVG(title string, lines []Line, logarithmic bool) string {
	x0, x1, y0, y1 := bounds(lines)
	logarithmic = logarithmic && y0 > 0
	scale := func(v float64) float64 { return v }
	if logarithmic {
		scale = math.Log10
	}
	px := func(x float64) string { return num(left + (x-x0)/(x1-x0)*innerWidth) }
	py := func(y float64) string {
		return num(top + innerHeight - (scale(y)-scale(y0))/(scale(y1)-scale(y0))*innerHeight)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s" font-family="sans-serif" font-size="12">`, svgWidth, svgHeight, text(title))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/><text x="%d" y="18" font-size="14">%s</text>`, svgWidth, svgHeight, left, text(title))
	for i := range 5 {
		f := float64(i) / 4
		y := y0 + f*(y1-y0)
		if logarithmic {
			y = math.Pow(10, scale(y0)+f*(scale(y1)-scale(y0)))
		}
		x := x0 + f*(x1-x0)
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%s" y2="%s" stroke="#ddd"/><text x="%d" y="%s" text-anchor="end" dy="4">%s</text>`, left, svgWidth-right, py(y), py(y), left-6, py(y), strconv.FormatFloat(y, 'g', 4, 64))
		fmt.Fprintf(&b, `<text x="%s" y="%d" text-anchor="middle">%.0f</text>`, px(x), svgHeight-bottom+16, x)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">step</text>`, left+innerWidth/2, svgHeight-6)
	for i, l := range lines {
		color := colors[i%len(colors)]
		var path, upper, lower strings.Builder
		var back []string
		move := "M"
		for _, k := range l.Buckets {
			x := px(float64(k.Step+k.LastStep) / 2)
			if k.NonFinite > 0 {
				fmt.Fprintf(&b, `<circle cx="%s" cy="%d" r="3" fill="%s"><title>%d not finite</title></circle>`, x, top, color, k.NonFinite)
			}
			if k.Count == 0 {
				move = "M"
				continue
			}
			fmt.Fprintf(&path, "%s%s %s", move, x, py(k.Mean))
			move = "L"
			if k.Count > 1 {
				fmt.Fprintf(&upper, "%s %s ", x, py(k.Max))
				back = append(back, x+" "+py(k.Min))
			}
		}
		for k := len(back) - 1; k >= 0; k-- {
			lower.WriteString(back[k] + " ")
		}
		if len(back) > 1 {
			fmt.Fprintf(&b, `<polygon points="%s%s" fill="%s" fill-opacity="0.2"/>`, upper.String(), lower.String(), color)
		}
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.5"/>`, path.String(), color)
		if len(l.Buckets) == 1 && l.Buckets[0].Count > 0 {
			fmt.Fprintf(&b, `<circle cx="%s" cy="%s" r="3" fill="%s"/>`, px(float64(l.Buckets[0].Step)), py(l.Buckets[0].Mean), color)
		}
		if len(lines) > 1 {
			fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s" text-anchor="end">%s</text>`, svgWidth-right, top+14+16*i, color, text(l.Name))
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func text(s string) string { return html.EscapeString(monitor.EscapeControl(s)) }

// num formats a coordinate.
func num(v float64) string {
	if v-v != 0 {
		v = 0
	}
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}
