package view

import (
	"io"
	"strings"
)

// screen draws frames on the last lines of a terminal. It erases line by line, since a terminal may add a cleared
// screen to its history.
type screen struct {
	out   io.Writer
	drawn []int // columns of each line on the screen
	shown string
	rows  int // of the terminal, 0 if unknown

	hidden     int // rows scrolled off a shrunk terminal
	typedLines int // lines typed since the last drawing
}

// draw replaces the lines on a terminal of a size, and writes text above them. Nothing is written if nothing
// changed, unless force is true.
func (c *screen) draw(lines []string, above string, columns, rows int, force bool) error {
	if rows > 0 && len(lines) > rows-1 { // the last row is the cursor's
		lines = lines[:max(1, rows-1)]
	}
	body := strings.Join(lines, "\n")
	if body == c.shown && above == "" && c.typedLines == 0 && !force {
		return nil
	}
	c.shown = body
	var b strings.Builder
	b.WriteString("\x1b[?2026h") // synchronized update, where supported
	c.erase(&b, columns, rows)
	if b.WriteString(above); above != "" {
		c.hidden = 0 // new text is between
	}
	for _, l := range lines {
		b.WriteString(l + "\r\n")
		c.drawn = append(c.drawn, displayWidth(l))
	}
	b.WriteString("\x1b[?2026l")
	_, err := io.WriteString(c.out, b.String())
	return err
}

// erase clears the lines of the last drawing, from the cursor's line up, and leaves the cursor on the first. A
// terminal that shrinks scrolls rows off its top, and many restore them when it grows; on one that does not, the
// view starts at the first row, where the cursor stops.
func (c *screen) erase(b *strings.Builder, columns, height int) {
	rows := c.typedLines
	for _, n := range c.drawn {
		rows += max(1, (n+columns-1)/columns) // a narrower terminal wraps them
	}
	switch grown := height - c.rows; {
	case height > 0 && rows > height-1:
		c.hidden += rows - (height - 1)
		rows = height - 1
	case c.rows > 0 && grown > 0:
		back := min(c.hidden, grown)
		c.hidden -= back
		rows += back
	}
	b.WriteString("\r\x1b[K" + strings.Repeat("\x1b[A\x1b[K", rows))
	c.drawn, c.typedLines, c.rows = c.drawn[:0], 0, height
}

// forget leaves what is drawn on the terminal: the next drawing starts below it.
func (c *screen) forget() { c.drawn, c.shown, c.hidden, c.typedLines = nil, "", 0, 0 }

// displayWidth counts the columns of a line outside of escape sequences.
func displayWidth(s string) int {
	n, escape := 0, false
	for _, c := range s {
		switch {
		case c == '\x1b':
			escape = true
		case escape:
			escape = c != 'm'
		default:
			n += runeWidth(c)
		}
	}
	return n
}
