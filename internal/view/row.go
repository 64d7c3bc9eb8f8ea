package view

import "strings"

// row is a line made of items that are shown whole or omitted.
type row []item

// item is text with escape sequences, and its width in columns.
type item struct {
	text    string
	columns int
}

func (r *row) item() *row {
	*r = append(*r, item{})
	return r
}

// add appends styled text to the last item. Text from files cannot contain control characters after it.
func (r *row) add(style, reset, text string) *row {
	if text = clean(text); text == "" {
		return r
	}
	it := &(*r)[len(*r)-1]
	it.columns += textWidth(text)
	if style != "" {
		text = style + text + reset
	}
	it.text += text
	return r
}

// field adds an item of a label and a value, unless the value is empty.
func (r *row) field(s styles, label, value string) {
	if value != "" {
		r.item().add("", "", "  ").add(s.dim, s.reset, label+" ").add("", "", value)
	}
}

// words adds an item per word, for text that may be cut between words.
func (r *row) words(style, reset, text string) {
	for i, word := range strings.Fields(text) {
		r.item().add(style, reset, strings.Repeat(" ", min(i, 1))+word)
	}
}

func (r row) columns() (n int) {
	for _, it := range r {
		n += it.columns
	}
	return n
}

// fit returns the row cut to width columns, with a mark for omitted items.
func (r row) fit(width int, unicode bool) string {
	mark := " " + ellipsis(unicode)
	room, short := width, r.columns() > width
	if short {
		room -= textWidth(mark)
	}
	var b strings.Builder
	for _, it := range r {
		if room -= it.columns; room < 0 {
			break
		}
		b.WriteString(it.text)
	}
	if short && width >= textWidth(mark) {
		b.WriteString(mark)
	}
	return b.String()
}

func ellipsis(unicode bool) string {
	if unicode {
		return "…"
	}
	return ".."
}
