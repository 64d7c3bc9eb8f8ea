package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"trireme/data"
	"trireme/internal/view"
	"trireme/monitor"
)

// tokenizing shows the progress of tokenization: one redrawn line on a terminal, a line every few
// seconds elsewhere, nothing if it takes less than a second.
type tokenizing struct {
	w     io.Writer
	name  string     // of data without path
	width func() int // of the terminal; nil: none
	open  bool       // at is in progress
	at    data.Progress
	began time.Time // of at
	last  time.Time // of the last report
	drawn time.Time
}

const (
	drawEvery = 100 * time.Millisecond
	sayEvery  = 5 * time.Second
	moment    = time.Second
)

// newTokenizing returns a progress display on w. name is the name of data without path.
func newTokenizing(w io.Writer, name string) *tokenizing {
	t := &tokenizing{name: name}
	t.w, t.width = openLine(w)
	return t
}

// openLine returns the terminal of w with its width, to redraw a line, or w and nil.
func openLine(w io.Writer) (io.Writer, func() int) {
	if f, ok := monitor.UnderlyingFile(w); ok {
		if term, ok := view.OpenTerminal(f, os.LookupEnv); ok {
			return f, func() int { columns, _ := term.Size(); return columns }
		}
	}
	return w, nil
}

// redraw replaces the line by text, cut to the width.
func redraw(w io.Writer, width int, text string) {
	line := []rune(text)
	fmt.Fprintf(w, "\r\x1b[K%s", string(line[:min(len(line), width-1)]))
}

// report is the progress callback for data.Open.
func (t *tokenizing) report(p data.Progress) {
	now := time.Now()
	if !t.open || p.Path != t.at.Path || p.Total != t.at.Total {
		t.close()
		t.open, t.began, t.drawn = true, now, now
	}
	t.at, t.last = p, now
	switch {
	case t.width != nil && now.Sub(t.drawn) >= drawEvery:
		redraw(t.w, t.width(), t.state())
	case t.width == nil && now.Sub(t.drawn) >= sayEvery:
		fmt.Fprintln(t.w, t.state())
	default:
		return
	}
	t.drawn = now
}

func (t *tokenizing) state() string {
	return fmt.Sprintf("tokenizing %s: %d%% %s", t.called(), 100*t.at.Done/max(1, t.at.Total), t.speed())
}

// called returns the cleaned name of the data, since output goes to the terminal directly.
func (t *tokenizing) called() string {
	if t.at.Path == "" {
		return t.name
	}
	return monitor.EscapeControl(t.at.Path)
}

// speed returns the speed in bytes of the files.
func (t *tokenizing) speed() string {
	return fmt.Sprintf("%.1f MB/s", float64(t.at.Done)/max(t.last.Sub(t.began).Seconds(), 1e-3)/1e6)
}

func (t *tokenizing) close() {
	if !t.open {
		return
	}
	t.open = false
	took := t.last.Sub(t.began)
	if t.width != nil && t.drawn.After(t.began) {
		redraw(t.w, 1, "")
	}
	if took >= moment {
		fmt.Fprintf(t.w, "tokenized %s in %s (%s)\n", t.called(), shortDuration(took), t.speed())
	}
}
