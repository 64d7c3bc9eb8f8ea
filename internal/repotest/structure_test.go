package repotest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	structureFile = "docs/img/structure.svg"
	rowHeight     = 62 // pixels from one layer to the next
	boxHeight     = 30 // height of a box
	letter        = 7.3
	left          = 34
)

// TestStructure checks that the drawing in docs/architecture.md shows the packages and imports of the code.
// UPDATE=1 redraws it.
func TestStructure(t *testing.T) {
	root := repository(t)
	files, err := load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	drawn := draw(imports(files))
	at := filepath.Join(root, filepath.FromSlash(structureFile))
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(at, []byte(drawn), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	if string(kept) != drawn {
		t.Errorf("%s is stale. try: UPDATE=1 go test ./internal/repotest -run Structure", structureFile)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	for l, names := range layers {
		if line := fmt.Sprintf("%2d  %s\n", l, strings.Join(names, "  ")); !strings.Contains(string(page), line) {
			t.Errorf("docs/architecture.md: the list of layers is stale. try: this line for layer %d:\n%s", l, line)
		}
	}
}

// imports lists for each entry of layers the entries that it imports, without tests.
func imports(files []*file) map[string][]string {
	out := map[string][]string{}
	for _, f := range files {
		_, from, ok := layerOf(f.pkg)
		if !ok || f.test || f.foreign {
			continue
		}
		for _, spec := range f.ast.Imports {
			to, ok := strings.CutPrefix(importPath(spec), module+"/")
			if !ok {
				continue
			}
			if _, to, ok := layerOf(to); ok && to != from && !slices.Contains(out[from], to) {
				out[from] = append(out[from], to)
			}
		}
	}
	return out
}

// reaches says whether from imports to by way of others, not counting the direct import.
func reaches(all map[string][]string, from, to string) bool {
	for _, via := range all[from] {
		if via != to && (slices.Contains(all[via], to) || reaches(all, via, to)) {
			return true
		}
	}
	return false
}

// draw draws a row for each layer and a box for each entry. An arrow is an import that no other
// import implies.
func draw(all map[string][]string) string {
	type box struct{ x, y, w float64 }
	boxes := map[string]box{}
	width := 0.0
	for l, names := range layers {
		x, y := float64(left), float64((len(layers)-1-l)*rowHeight+8)
		for _, n := range names {
			b := box{x, y, float64(len(label(n)))*letter + 14}
			boxes[n] = b
			x += b.w + 10
		}
		width = max(width, x)
	}
	for _, names := range layers { // rows are centered
		last := boxes[names[len(names)-1]]
		shift := (width - (last.x + last.w + 10)) / 2
		for _, n := range names {
			b := boxes[n]
			b.x += shift
			boxes[n] = b
		}
	}
	height := len(layers)*rowHeight + 8 - (rowHeight - boxHeight) + 8
	var lines, shapes strings.Builder
	for l, names := range layers {
		y := (len(layers)-1-l)*rowHeight + 8
		fmt.Fprintf(&shapes, "<text x=\"6\" y=\"%d\" fill=\"#8b949e\">%d</text>\n", y+20, l)
		for _, from := range names {
			b := boxes[from]
			fmt.Fprintf(&shapes, "<rect x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%d\" rx=\"4\"/><text x=\"%.0f\" y=\"%.0f\">%s</text>\n", b.x, b.y, b.w, boxHeight, b.x+7, b.y+20, label(from))
			targets := slices.Clone(all[from])
			slices.Sort(targets)
			for _, to := range targets {
				if c := boxes[to]; !reaches(all, from, to) {
					fmt.Fprintf(&lines, "<path d=\"M%.0f %.0fL%.0f %.0f\"><title>%s imports %s</title></path>\n", b.x+b.w/2, b.y+boxHeight, c.x+c.w/2, c.y-1, from, to)
				}
			}
		}
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" role="img" aria-label="Packages by layer, with their imports">
<rect width="100%%" height="100%%" fill="#ffffff"/>
<g fill="none" stroke="#9aa4b2" stroke-width="1">
%s</g>
<g font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="12" fill="#1f2328">
<style>rect[rx] { fill: #eef3fb; stroke: #5b7db1; }</style>
%s</g>
</svg>
`, width, height, lines.String(), shapes.String())
}

// label shortens names of internal packages.
func label(name string) string {
	return strings.Replace(strings.Replace(name, "internal/backend/", "i/backend/", 1), "internal/", "i/", 1)
}
