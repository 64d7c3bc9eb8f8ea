package monitor

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// View is a live view of a few lines at the end of a terminal: progress, the loss and its
// course, speed, memory by category, the last evaluation. What is written to it, or noted,
// appears above and scrolls away as usual; so a View stands in for the terminal as the
// place of all other output.
//
// It only writes, and changes no mode of the terminal: Ctrl-C and Ctrl-Z act as ever, the
// cursor stays visible, and there is nothing to restore when the process is killed. It reads no
// keys; where the system says that a line was typed, it draws over the line that Enter began. The
// last state stays on the screen.
//
// It clears line by line: a terminal may keep in its history what is cleared as a whole screen.
//
// Record, Evaluate, Note and Write never wait for the terminal: a goroutine draws, at most
// ten times a second. They may be called from any goroutine.
type View struct {
	out  io.Writer
	term Terminal
	s    styles

	mu      sync.Mutex
	frame   frame
	eta     eta
	pending []byte // whole and unfinished lines to be shown above
	dropped int    // bytes of them that were not kept
	err     error
	changed chan struct{} // has room for one
	closed  bool
	done    chan struct{} // the goroutine has ended

	// Of the goroutine:
	drawn      []int // columns of each line on the screen
	shown      string
	rows       int // of the terminal, 0 if unknown
	hidden     int // rows of the view that have left a terminal made lower, at its top
	lastInput  int // what Terminal.Typed said last
	typedLines int // lines that were typed since the last drawing
}

var (
	_ Sink      = (*View)(nil)
	_ io.Writer = (*View)(nil)
)

const (
	pollEvery  = 25 * time.Millisecond // at what was typed: a key that is held repeats more slowly
	drawEvery  = 100 * time.Millisecond
	clockEvery = 500 * time.Millisecond // without a change
	maxPending = 1 << 20
)

// NewView draws on out, which t describes. Close it.
func NewView(out io.Writer, t Terminal) *View {
	v := &View{out: out, term: t, changed: make(chan struct{}, 1), done: make(chan struct{})}
	v.frame.began = time.Now()
	if t.Color {
		v.s = colors
	}
	go v.loop()
	return v
}

func (v *View) change(f func()) error {
	v.mu.Lock()
	f()
	err := v.err
	v.mu.Unlock()
	select {
	case v.changed <- struct{}{}:
	default:
	}
	return err
}

// Record shows a step, and writes a line above at the end of an epoch.
func (v *View) Record(r Record) error {
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	if r.EpochLoss != nil {
		if err := v.Note(epochLine(r)); err != nil {
			return err
		}
	}
	return v.change(func() {
		v.frame.eta = v.eta.remaining(r)
		v.frame.last = r
		v.frame.steps++
		v.frame.loss.add(r.Loss)
	})
}

// Evaluate shows an evaluation.
func (v *View) Evaluate(e Evaluation) error {
	return v.change(func() { v.frame.evals = &e })
}

// Note writes a line above.
func (v *View) Note(text string) error {
	_, err := v.Write([]byte(strings.TrimRight(text, "\n") + "\n"))
	return err
}

// Write shows whole lines above; the rest waits for its end. Should the terminal stand
// still, a mebibyte is kept.
func (v *View) Write(p []byte) (int, error) {
	err := v.change(func() {
		if len(v.pending)+len(p) > maxPending {
			v.dropped += len(p)
			return
		}
		v.pending = append(v.pending, p...)
	})
	return len(p), err
}

// Close draws the last state and ends the view. It waits a second at most for a terminal
// that stands still.
func (v *View) Close() error {
	err := v.change(func() { v.closed = true })
	select {
	case <-v.done:
	case <-time.After(time.Second):
		return fmt.Errorf("monitor: the terminal does not take output")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil {
		err = v.err
	}
	return err
}

func (v *View) loop() {
	defer close(v.done)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	if v.term.PendingInput != nil {
		v.lastInput = v.term.PendingInput()
	}
	for !v.draw() {
		drawn, changed := time.Now(), false
		for since := time.Duration(0); since < drawEvery || !changed && v.typedLines == 0 && since < clockEvery; since = time.Since(drawn) {
			select {
			case <-v.changed:
				changed = true
			case <-tick.C:
				v.pollInput()
			}
		}
	}
}

// pollInput counts a line that was typed. Enter echoes one line end, whatever stands before it.
func (v *View) pollInput() {
	if v.term.PendingInput == nil {
		return
	}
	n := v.term.PendingInput()
	if n > v.lastInput {
		v.typedLines++
	}
	v.lastInput = n
}

// draw puts the present state on the screen, and says whether it was the last.
func (v *View) draw() (last bool) {
	v.mu.Lock()
	last = v.closed
	v.frame.over = last
	columns, rows := v.term.Size()
	var lines []string
	if !last || v.frame.steps > 0 {
		lines = v.frame.lines(time.Now(), columns, v.term.Unicode, v.s)
	}
	above := v.takePending(last)
	v.mu.Unlock()
	if rows > 0 && len(lines) > rows-1 { // the cursor's line is the last
		lines = lines[:max(1, rows-1)]
	}

	v.pollInput()
	body := strings.Join(lines, "\n")
	if body == v.shown && above == "" && v.typedLines == 0 && !last {
		return last
	}
	v.shown = body
	var b strings.Builder
	b.WriteString("\x1b[?2026h") // terminals that know it show the change in one piece
	v.erase(&b, columns, rows)
	if b.WriteString(above); above != "" {
		v.hidden = 0 // this stands between
	}
	for _, l := range lines {
		b.WriteString(l + "\r\n")
		v.drawn = append(v.drawn, displayWidth(l))
	}
	b.WriteString("\x1b[?2026l")
	if _, err := io.WriteString(v.out, b.String()); err != nil {
		v.mu.Lock()
		v.err = fmt.Errorf("monitor: %w", err)
		v.mu.Unlock()
	}
	return last
}

// erase clears what was drawn last, from the cursor's line up, and leaves the cursor on the first. A
// terminal that is made lower moves rows out at its top, and many bring them back when it grows;
// where one does not, the view begins on its first row, above which the cursor cannot go.
func (v *View) erase(b *strings.Builder, columns, height int) {
	rows := v.typedLines
	for _, n := range v.drawn {
		rows += max(1, (n+columns-1)/columns) // a terminal made narrower has broken them
	}
	switch grown := height - v.rows; {
	case height > 0 && rows > height-1:
		v.hidden += rows - (height - 1)
		rows = height - 1
	case v.rows > 0 && grown > 0:
		back := min(v.hidden, grown)
		v.hidden -= back
		rows += back
	}
	b.WriteString("\r\x1b[K" + strings.Repeat("\x1b[A\x1b[K", rows))
	v.drawn, v.typedLines, v.rows = v.drawn[:0], 0, height
}

// takePending removes the whole lines that are pending, or at the end all. v.mu is held.
func (v *View) takePending(all bool) string {
	n := bytes.LastIndexByte(v.pending, '\n') + 1
	if all && n < len(v.pending) {
		v.pending = append(v.pending, '\n')
		n = len(v.pending)
	}
	if n == 0 && len(v.pending) < maxPending/2 {
		return ""
	}
	if n == 0 {
		n = len(v.pending) // one endless line
	}
	text := string(v.pending[:n])
	v.pending = append(v.pending[:0], v.pending[n:]...)
	if v.dropped > 0 {
		text += fmt.Sprintf("(%s of output were not shown)\n", Bytes(int64(v.dropped)))
		v.dropped = 0
	}
	var b strings.Builder
	for l := range strings.Lines(text) {
		l = strings.TrimRight(l, "\r\n")
		b.WriteString(EscapeControl(l[strings.LastIndexByte(l, '\r')+1:]) + "\r\n")
	}
	return b.String()
}

// displayWidth counts what is seen of a line of ours: runes outside of escape sequences.
func displayWidth(s string) int {
	n, escape := 0, false
	for _, c := range s {
		switch {
		case c == '\x1b':
			escape = true
		case escape:
			escape = c != 'm'
		default:
			n++
		}
	}
	return n
}
