package view

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"trireme/monitor"
)

// View is a live view on the last lines of a terminal: progress, loss, throughput, memory by category
// and the last evaluation. Notes and text written to it appear above and scroll, so all other output
// of the terminal goes through it.
//
// It only writes and does not change the terminal's mode: Ctrl-C and Ctrl-Z work, the cursor stays
// visible, and a killed process leaves nothing to restore. It reads no keys; if the operating system
// reports a typed line, the view overwrites the line that Enter started. It erases line by line, since
// a terminal may add a cleared screen to its history. The last state stays on the screen.
//
// Record, Evaluate, Note and Write may be called from any goroutine and never wait for the terminal:
// one goroutine draws, up to ten times a second.
type View struct {
	term Terminal
	s    styles

	mu      sync.Mutex
	state   *State
	pending []byte // lines to be shown above
	dropped int    // bytes not kept
	err     error
	changed chan struct{} // capacity 1
	closed  bool
	done    chan struct{} // closed when the goroutine ends

	// Used by the drawing goroutine only:
	screen    screen
	lastInput int // last value of Terminal.PendingInput
}

var (
	_ monitor.Sink = (*View)(nil)
	_ io.Writer    = (*View)(nil)
)

// stopHint is the last line of a view in the foreground.
const stopHint = "Ctrl-C saves and stops"

const (
	pollEvery  = 25 * time.Millisecond // for typed lines; shorter than a key's repeat
	drawEvery  = 100 * time.Millisecond
	clockEvery = 500 * time.Millisecond // without changes
	maxPending = 1 << 20
)

// NewView draws on out, the terminal t. The caller closes the View.
func NewView(out io.Writer, t Terminal) *View {
	v := &View{screen: screen{out: out}, term: t, state: NewState(), changed: make(chan struct{}, 1), done: make(chan struct{})}
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

// Record shows a step, and writes a line above it at the end of an epoch.
func (v *View) Record(r monitor.Record) error {
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	if r.EpochLoss != nil {
		if err := v.Note(monitor.EpochLine(r)); err != nil {
			return err
		}
	}
	return v.change(func() { v.state.Record(r) })
}

// Update changes the state, for what is not in records.
func (v *View) Update(f func(*State)) { v.change(func() { f(v.state) }) }

// Evaluate shows an evaluation.
func (v *View) Evaluate(e monitor.Evaluation) error {
	return v.change(func() { v.state.Evaluate(e) })
}

// Note writes a line above the view.
func (v *View) Note(text string) error {
	_, err := v.Write([]byte(strings.TrimRight(text, "\n") + "\n"))
	return err
}

// Write shows whole lines above the view; an unfinished line waits for its end. While the terminal is
// stalled, Write keeps up to 1 MiB and drops the rest.
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

// Close draws the last state and ends the view. It waits up to a second for a stalled terminal.
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
		for since := time.Duration(0); since < drawEvery || !changed && v.screen.typedLines == 0 && since < clockEvery; since = time.Since(drawn) {
			select {
			case <-v.changed:
				changed = true
			case <-tick.C:
				v.pollInput()
			}
		}
	}
}

func (v *View) pollInput() {
	if v.term.PendingInput == nil {
		return
	}
	n := v.term.PendingInput()
	if n > v.lastInput {
		v.screen.typedLines++
	}
	v.lastInput = n
}

// draw draws the current state and reports whether it was the last.
func (v *View) draw() (last bool) {
	v.mu.Lock()
	last = v.closed
	v.state.Over = last
	columns, rows := v.term.Size()
	var lines []string
	if !last || v.state.steps > 0 {
		lines = v.state.lines(time.Now(), options{width: columns, height: inlineHeight(rows), unicode: v.term.Unicode, s: v.s, hint: v.hint()})
	}
	above := v.takePending(last)
	v.mu.Unlock()

	v.pollInput()
	if err := v.screen.draw(lines, above, columns, rows, last); err != nil {
		v.mu.Lock()
		v.err = fmt.Errorf("view: %w", err)
		v.mu.Unlock()
	}
	return last
}

// hint is the last line of the view during a run. v.mu is held.
func (v *View) hint() string {
	if v.state.Over {
		return ""
	}
	return stopHint
}

// inlineHeight returns the lines of a view on a terminal of rows: half of a high one, so that notes above stay visible.
func inlineHeight(rows int) int {
	return max(min(rows-1, 12), rows/2)
}

// takePending removes pending whole lines, or everything if all is true. v.mu is held.
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
		n = len(v.pending) // one very long line
	}
	text := string(v.pending[:n])
	v.pending = append(v.pending[:0], v.pending[n:]...)
	if v.dropped > 0 {
		text += fmt.Sprintf("(%s of output not shown)\n", monitor.Bytes(int64(v.dropped)))
		v.dropped = 0
	}
	var b strings.Builder
	for l := range strings.Lines(text) {
		l = strings.TrimRight(l, "\r\n")
		b.WriteString(monitor.EscapeControl(l[strings.LastIndexByte(l, '\r')+1:]) + "\r\n")
	}
	return b.String()
}
