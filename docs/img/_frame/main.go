// Frame draws a frame of the live view as SVG, for the picture in README:
//
//	CLICOLOR_FORCE=1 COLUMNS=110 trireme watch --once runs/go-source-1 | go run ./docs/img/_frame > docs/img/live.svg
package main

import (
	"fmt"
	"html"
	"io"
	"os"
	"regexp"
	"strings"
)

type cell struct {
	r     rune
	style string // SVG attributes
}

var color = regexp.MustCompile(`^\x1b\[([0-9]*)m`)

// styles are SVG attributes by the color of a terminal.
var styles = map[string]string{
	"1": ` font-weight="bold" fill="#ffffff"`, "2": ` fill="#8b949e"`, "31": ` fill="#ff7b72"`, "32": ` fill="#3fb950"`, "33": ` fill="#d29922"`,
	"34": ` fill="#58a6ff"`, "35": ` fill="#bc8cff"`, "36": ` fill="#39c5cf"`,
}

func main() {
	b, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var lines [][]cell
	for line := range strings.Lines(string(b)) {
		lines = append(lines, cells(strings.TrimRight(line, "\n")))
	}
	fmt.Print(svg(lines))
}

func cells(line string) (out []cell) {
	style := ""
	for line != "" {
		if m := color.FindStringSubmatch(line); m != nil {
			style, line = styles[m[1]], line[len(m[0]):]
			continue
		}
		r := []rune(line)[0]
		out, line = append(out, cell{r, style}), line[len(string(r)):]
	}
	return out
}

func svg(lines [][]cell) string {
	const width, height, margin = 8.43, 19, 14
	columns := 0
	for _, l := range lines {
		columns = max(columns, len(l))
	}
	w, h := float64(columns)*width+2*margin, len(lines)*height+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img" aria-label="The live view of a run">`+"\n", w, h, w, h)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>`+"\n")
	fmt.Fprintf(&b, `<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14" fill="#e6edf3" xml:space="preserve">`+"\n")
	for i, l := range lines {
		for at := 0; at < len(l); {
			end := at
			var run strings.Builder
			for end < len(l) && l[end].style == l[at].style {
				run.WriteRune(l[end].r)
				end++
			}
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" textLength="%.1f"%s>%s</text>`+"\n", margin+float64(at)*width, margin+(i+1)*height-5, float64(end-at)*width, l[at].style, html.EscapeString(strings.ReplaceAll(run.String(), " ", "\u00a0")))
			at = end
		}
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}
