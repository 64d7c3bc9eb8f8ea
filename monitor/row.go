package monitor

import "strings"

// row is a line under construction: items, each of which is shown whole or not at all.
type row []item

// item is a part of a row: its text with escape sequences, and its width in columns.
type item struct {
	text    string
	columns int
}

// item begins a new item.
func (r *row) item() *row {
	*r = append(*r, item{})
	return r
}

// add appends text in a style to the last item; text has one column a rune.
func (r *row) add(style, reset, text string) *row {
	if text == "" {
		return r
	}
	it := &(*r)[len(*r)-1]
	it.columns += len([]rune(text))
	if style != "" {
		text = style + text + reset
	}
	it.text += text
	return r
}

// field is an item of a label and a value; nothing without a value.
func (r *row) field(s styles, label, value string) {
	if value != "" {
		r.item().add("", "", "  ").add(s.dim, s.reset, label+" ").add("", "", value)
	}
}

// columns is the width of all items.
func (r row) columns() (n int) {
	for _, it := range r {
		n += it.columns
	}
	return n
}

// fit is the row on width columns. Where items do not fit, a mark stands for them.
func (r row) fit(width int, unicode bool) string {
	mark := " …"
	if !unicode {
		mark = " .."
	}
	room, cut := width, r.columns() > width
	if cut {
		room -= len([]rune(mark))
	}
	var b strings.Builder
	for _, it := range r {
		if room -= it.columns; room < 0 {
			break
		}
		b.WriteString(it.text)
	}
	if cut && width >= len([]rune(mark)) {
		b.WriteString(mark)
	}
	return b.String()
}
