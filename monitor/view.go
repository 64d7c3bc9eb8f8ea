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
// cursor stays visible, and there is nothing to restore when the process is killed. The last
// state stays on the screen.
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

	drawn []int // of the goroutine: columns of each line on the screen
	shown string
}

var (
	_ Sink      = (*View)(nil)
	_ io.Writer = (*View)(nil)
)

const (
	drawEvery  = 100 * time.Millisecond
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

// Record shows a step.
func (v *View) Record(r Record) error {
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	return v.change(func() {
		v.frame.left = v.eta.left(r)
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
	tick := time.NewTicker(500 * time.Millisecond) // for clocks that run
	defer tick.Stop()
	for {
		last := v.draw()
		if last {
			return
		}
		time.Sleep(drawEvery)
		select {
		case <-v.changed:
		case <-tick.C:
		}
	}
}

// draw puts the present state on the screen, and says whether it was the last.
func (v *View) draw() (last bool) {
	v.mu.Lock()
	last = v.closed
	v.frame.over = last
	width := v.term.Width()
	var lines []string
	if !last || v.frame.steps > 0 {
		lines = v.frame.lines(time.Now(), width, v.term.Unicode, v.s)
	}
	above := v.take(last)
	v.mu.Unlock()

	var b strings.Builder
	if body := strings.Join(lines, "\n"); body == v.shown && above == "" && !last {
		return last
	} else {
		v.shown = body
	}
	b.WriteString("\x1b[?2026h") // terminals that know it show the change in one piece
	rows := 0
	for _, n := range v.drawn {
		rows += max(1, (n+width-1)/width) // a terminal made narrower has broken them
	}
	if rows > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", rows)
	}
	b.WriteString("\r\x1b[J")
	b.WriteString(above)
	v.drawn = v.drawn[:0]
	for _, l := range lines {
		b.WriteString(l + "\r\n")
		v.drawn = append(v.drawn, columns(l))
	}
	b.WriteString("\x1b[?2026l")
	if _, err := io.WriteString(v.out, b.String()); err != nil {
		v.mu.Lock()
		v.err = fmt.Errorf("monitor: %w", err)
		v.mu.Unlock()
	}
	return last
}

// take removes the whole lines that are pending, or at the end all. v.mu is held.
func (v *View) take(all bool) string {
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
		b.WriteString(l[strings.LastIndexByte(l, '\r')+1:] + "\r\n")
	}
	return b.String()
}

// columns counts what is seen of a line of ours: runes outside of escape sequences.
func columns(s string) int {
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
