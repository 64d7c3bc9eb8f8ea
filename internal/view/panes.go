package view

import (
	"fmt"
	"strings"
)

// Limits of the charts of the overview.
const (
	minChart = 2 // lines, without the title
	maxChart = 8
)

// chartGrid returns the charts of the overview in up to height lines; nil if that is too few.
func (f *frame) chartGrid(height int) (rows []row) {
	columns := 1
	switch {
	case f.width >= 150:
		columns = 4
	case f.width >= 60:
		columns = 2
	}
	high := (overviewCharts + columns - 1) / columns
	more := f.last.Means != nil || f.last.Skipped || !f.last.Finite()
	if more {
		height--
	}
	lines := min(height/high-1, maxChart)
	if lines < minChart {
		return nil
	}
	const gap = 2
	width := (f.width - gap*(columns-1)) / columns
	for first := 0; first < overviewCharts; first += columns {
		grid := make([]row, lines+1)
		for i := range columns {
			title, plot := f.chart(first+i, width, lines)
			for y, r := range append([]row{title}, plot...) {
				grid[y] = append(grid[y], r...)
				if i < columns-1 {
					grid[y].item().add("", "", strings.Repeat(" ", max(0, (width+gap)*(i+1)-grid[y].columns())))
				}
			}
		}
		rows = append(rows, grid...)
	}
	if more {
		var r row
		r.item().add(f.o.s.dim, f.o.s.reset, "also  ")
		f.addMeans(&r)
		rows = append(rows, r)
	}
	return rows
}

// chart returns the title and the lines of a metric's curve.
func (f *frame) chart(i, width, height int) (title row, plot []row) {
	s, m := f.o.s, metrics[i]
	lines, low, high := f.curves[m.name].plot(width, height, f.o.unicode)
	title.item().add(s.dim, s.reset, m.label+" ").add(s.bold, s.reset, m.format(m.value(f.last)))
	scale := fmt.Sprintf("  %s to %s", m.format(low), m.format(high))
	if len(f.curves[m.name].points) > 0 && title.columns()+len(scale) <= width {
		title.add(s.dim, s.reset, scale)
	}
	for _, line := range lines {
		var r row
		r.item().add(s.accent, s.reset, line)
		plot = append(plot, r)
	}
	return title, plot
}

// noteRows is a title and the last notes in up to height lines.
func (f *frame) noteRows(height int) (rows []row) {
	if height < 2 || len(f.notes) == 0 {
		return nil
	}
	s := f.o.s
	var title row
	title.item().add(s.dim, s.reset, "notes")
	rows = append(rows, title)
	for _, text := range f.notes[max(0, len(f.notes)-height+1):] {
		var r row
		r.item().add("", "", " "+truncate(clean(text), f.width-1, ellipsis(f.o.unicode)))
		rows = append(rows, r)
	}
	return rows
}

// paneRows is a frame of another pane than the overview.
func (f *frame) paneRows() (rows []row) {
	s := f.o.s
	if f.Run.Dir != "" {
		rows = append(rows, f.headRow())
	}
	if f.steps > 0 {
		rows = append(rows, f.progressRow())
	}
	var title row
	title.item().add(s.bold, s.reset, f.o.pane.String())
	room := 1000
	if f.o.height > 0 {
		room = max(f.o.height-len(rows)-2, 1)
	}
	var list []row
	switch {
	case f.o.pane == notesPane:
		list = f.allNotes()
	case f.steps == 0:
		list = f.nothing("No steps yet.")
	case f.o.pane == chartPane:
		head, plot := f.chart(f.o.metric, f.width, max(min(room-1, 30), 1))
		list = append([]row{head}, plot...)
	case f.o.pane == timePane:
		list = f.timeLines()
	case f.last.Ranks == nil:
		list = f.nothing("The records of this run have no times of ranks.")
	default:
		list = f.rankLines(len(f.last.Ranks.Own))
	}
	if len(list) > room { // a list of notes starts at its end
		first := min(f.o.offset, len(list)-room)
		if f.o.pane == notesPane {
			first = len(list) - room - first
		}
		title.item().add(s.dim, s.reset, fmt.Sprintf("  %d to %d of %d", first+1, first+room, len(list)))
		list = list[first : first+room]
	}
	return f.hint(append(append(rows, title), list...))
}

func (f *frame) nothing(text string) []row {
	var r row
	r.words(f.o.s.dim, f.o.s.reset, text)
	return []row{r}
}

func (f *frame) allNotes() (rows []row) {
	if len(f.notes) == 0 {
		return f.nothing("No notes yet.")
	}
	for _, text := range f.notes {
		for _, line := range wrap(clean(text), f.width) {
			var r row
			r.item().add("", "", line)
			rows = append(rows, r)
		}
	}
	return rows
}

// keyHelp has the keys, in 39 columns.
var keyHelp = [][2]string{
	{"q, Ctrl-C", "quit; the run continues"},
	{"?", "this help"},
	{"tab, 1 to 5", "panes: overview, chart,"},
	{"", "time, ranks, notes"},
	{"left, right", "another chart"},
	{"up, down", "scroll"},
	{"n", "next run, of several"},
	{"Ctrl-Z", "suspend; fg continues"},
}

func (f *frame) help() (rows []row) {
	s := f.o.s
	var title row
	title.item().add(s.bold, s.reset, "keys").add(s.dim, s.reset, "  (any key closes this)")
	rows = append(rows, title)
	for _, k := range keyHelp {
		var r row
		r.item().add(s.accent, s.reset, pad(k[0], 13)).add("", "", k[1])
		rows = append(rows, r)
	}
	return rows
}
