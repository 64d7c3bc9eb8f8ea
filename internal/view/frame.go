package view

import (
	"time"

	"trireme/monitor"
)

// pane is the part of a frame below the progress.
type pane int

const (
	overview pane = iota
	chartPane
	timePane
	ranksPane
	notesPane
	panes // their number
)

func (p pane) String() string { return [...]string{"overview", "chart", "time", "ranks", "notes"}[p] }

// options are how a frame is drawn.
type options struct {
	width, height int // of the terminal and of the frame; height 0: unlimited
	unicode       bool
	s             styles
	hint          string // the last line during a run
	notes         bool   // the overview has a pane of notes

	pane   pane
	metric int // of the chart pane
	offset int // of the first line of a list
	help   bool
}

// frame formats a state. It does no output.
type frame struct {
	*State
	o     options
	width int
	now   time.Time
}

// lines formats the state for a terminal.
func (s *State) lines(now time.Time, o options) []string {
	f := &frame{s, o, max(o.width-1, 0), now} // keep the last column free: some terminals wrap after it
	var rows []row
	switch {
	case o.help:
		rows = f.help()
	case o.pane != overview:
		rows = f.paneRows()
	case f.steps == 0:
		rows = f.starting()
	default:
		rows = f.overview()
	}
	if o.height > 0 && len(rows) > o.height {
		rows = rows[:max(1, o.height)]
	}
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = r.fit(f.width, o.unicode)
	}
	return out
}

func (f *frame) starting() (rows []row) {
	s := f.o.s
	if f.Run.Dir != "" {
		rows = append(rows, f.headRow())
	}
	var r row
	if f.Over {
		r.item().add(s.dim, s.reset, "no steps")
	} else {
		r.item().add(s.dim, s.reset, "starting").add("", "", "  "+monitor.Clock(f.now.Sub(f.began)))
	}
	rows = append(rows, r)
	if f.o.notes {
		rows = append(rows, f.noteRows(max(f.o.height-len(rows)-1, 0))...)
	}
	return f.hint(rows)
}

// hint appends the last line.
func (f *frame) hint(rows []row) []row {
	if f.o.hint == "" {
		return rows
	}
	var r row
	r.words(f.o.s.dim, f.o.s.reset, f.o.hint)
	return append(rows, r)
}

// block is adjacent lines of the overview. If lines are scarce, the block with the highest drop is left out first.
type block struct {
	rows []row
	drop int
}

// Blocks of the overview that get more lines on a high terminal.
const (
	lossBlock  = 2
	timeBlock  = 4
	ranksBlock = 5
)

// overview shows all blocks that fit.
func (f *frame) overview() (rows []row) {
	blocks := make([]block, 14) // from top to bottom
	one := func(i, drop int, r row) { blocks[i] = block{[]row{r}, drop} }
	if f.Run.Dir != "" {
		one(0, 30, f.headRow())
	}
	one(1, 0, f.progressRow())
	one(lossBlock, 0, f.lossRow())
	one(lossBlock+1, 10, f.speedRow())
	if f.last.Split != nil {
		one(timeBlock, 40, f.splitRow())
	}
	if f.last.WorldSize > 1 && f.last.Skew > 0 {
		one(ranksBlock, 60, f.rankRow())
	}
	if f.last.Used() > 0 {
		one(ranksBlock+1, 50, f.memoryRow())
	}
	if f.last.Device != nil {
		one(7, 80, f.deviceRow())
	}
	if f.last.Host != nil {
		one(8, 90, f.hostRow())
	}
	if f.eval != nil {
		one(9, 55, f.evalRow())
	}
	if f.Saved != nil {
		one(10, 70, f.savedRow())
	}
	for i, r := range [][]row{f.textRows("limit", f.Limit), f.textRows("check", f.Warning)} {
		if f.o.height > 0 && f.o.height < 16 {
			r = r[:min(len(r), 1)]
		}
		blocks[11+i] = block{r, 20 + i*5}
	}
	if hint := f.hint(nil); len(hint) > 0 {
		one(13, 45, hint[0])
	}
	if f.o.height > 0 {
		f.fill(blocks)
	}
	for _, b := range blocks[:13] {
		rows = append(rows, b.rows...)
	}
	if f.o.notes && f.o.height > 0 {
		rows = append(rows, f.noteRows(f.o.height-len(rows)-len(blocks[13].rows))...)
	}
	return append(rows, blocks[13].rows...)
}

func count(blocks []block) (n int) {
	for _, b := range blocks {
		n += len(b.rows)
	}
	return n
}

// fill removes blocks that do not fit, or enlarges some.
func (f *frame) fill(blocks []block) {
	for count(blocks) > f.o.height {
		i := 0
		for k, b := range blocks {
			if b.drop > blocks[i].drop {
				i = k
			}
		}
		if blocks[i].drop == 0 {
			return
		}
		blocks[i] = block{}
	}
	extra := func() int { return f.o.height - count(blocks) }
	if f.last.Split != nil && len(blocks[timeBlock].rows) == 1 && extra() > 0 && f.width >= 60 {
		blocks[timeBlock].rows = append(blocks[timeBlock].rows, f.splitBar())
	}
	if t := f.last.Ranks; t != nil && len(blocks[ranksBlock].rows) == 1 && extra() >= 2 {
		blocks[ranksBlock].rows = f.rankLines(min(len(t.Own), max(2, extra()/4)))
	}
	reserved := 0
	if f.o.notes {
		reserved = min(len(f.notes), extra()/3)
	}
	if rows := f.chartGrid(extra() - reserved + 1); rows != nil {
		blocks[lossBlock].rows = rows
	}
}
