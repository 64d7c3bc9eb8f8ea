// Frame draws one frame of a recorded terminal as SVG, for the picture in README:
//
//	script -qc "stty cols 96 rows 30; trireme train" live.typescript
//	go run ./docs/img/_frame "400/600" < live.typescript > docs/img/live.svg
//
// It follows the few control sequences that the live view writes, and takes the last moment at which
// the screen shows its argument.
package main

import (
	"fmt"
	"html"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
)

type cell struct {
	r     rune
	style string // SVG attributes
}

type screen struct {
	lines    [][]cell
	row, col int
	style    string
}

var sequence = regexp.MustCompile(`^\x1b\[([?0-9;]*)([A-Za-z])`)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, `usage: frame TEXT < TYPESCRIPT > SVG`)
		os.Exit(2)
	}
	b, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s, found := &screen{}, ""
	_, text, _ := strings.Cut(string(b), "\n") // after script's own line
	for text != "" {
		if m := sequence.FindStringSubmatch(text); m != nil {
			if m[1] == "?2026" && m[2] == "l" && strings.Contains(s.text(), os.Args[1]) {
				found = s.svg()
			}
			s.control(m[1], m[2])
			text = text[len(m[0]):]
			continue
		}
		r := []rune(text[:min(4, len(text))])[0]
		s.put(r)
		text = text[len(string(r)):]
	}
	if found == "" {
		fmt.Fprintf(os.Stderr, "no frame shows %q\n", os.Args[1])
		os.Exit(1)
	}
	fmt.Print(found)
}

func (s *screen) put(r rune) {
	for s.row >= len(s.lines) {
		s.lines = append(s.lines, nil)
	}
	switch r {
	case '\r':
		s.col = 0
	case '\n':
		s.row++
	default:
		l := s.lines[s.row]
		for len(l) <= s.col {
			l = append(l, cell{r: ' '})
		}
		l[s.col] = cell{r, s.style}
		s.lines[s.row] = l
		s.col++
	}
}

func (s *screen) control(parameters, final string) {
	n, _ := strconv.Atoi(parameters)
	switch final {
	case "A":
		s.row = max(0, s.row-max(1, n))
	case "K":
		if s.row < len(s.lines) && s.col < len(s.lines[s.row]) {
			s.lines[s.row] = s.lines[s.row][:s.col]
		}
	case "m":
		s.style = map[int]string{0: "", 1: ` font-weight="bold" fill="#ffffff"`, 2: ` fill="#8b949e"`, 36: ` fill="#39c5cf"`}[n]
	}
}

func (s *screen) text() string {
	var b strings.Builder
	for _, l := range s.lines {
		for _, c := range l {
			b.WriteRune(c.r)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// svg draws the lines of the screen, which scrolls past what came before the run's first line.
func (s *screen) svg() string {
	lines := s.lines
	for len(lines) > 0 && len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	for i, l := range lines {
		if strings.HasPrefix((&screen{lines: [][]cell{l}}).text(), "model: ") {
			lines = lines[i:]
			break
		}
	}
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
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" textLength="%.1f"%s>%s</text>`+"\n", margin+float64(at)*width, margin+(i+1)*height-5, float64(end-at)*width, l[at].style, html.EscapeString(run.String()))
			at = end
		}
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}
