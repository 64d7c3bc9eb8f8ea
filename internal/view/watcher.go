package view

import (
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// Watcher shows runs that other processes train, one at a time on a whole terminal, until the user quits. It never
// changes a run.
type Watcher struct {
	// Keys is the keyboard; nil: no keys, and Run returns when all runs are over.
	Keys *Keyboard

	term    Terminal
	screen  screen
	states  []*State // of each run
	at      int      // the run that is shown
	o       options
	updates chan func()
	done    chan struct{} // closed when Run returns
}

// NewWatcher returns a Watcher of runs that draws on out, the terminal t.
func NewWatcher(out io.Writer, t Terminal, keys *Keyboard, runs int) *Watcher {
	w := &Watcher{Keys: keys, term: t, screen: screen{out: out}, updates: make(chan func()), done: make(chan struct{})}
	for range runs {
		w.states = append(w.states, NewState())
	}
	w.o = options{unicode: t.Unicode, notes: true, hint: "Ctrl-C quits; the run continues"}
	if t.Color {
		w.o.s = colors
	}
	if keys != nil {
		w.o.hint = "q quit  ? keys  tab pane"
		if runs > 1 {
			w.o.hint += "  n next run"
		}
	}
	return w
}

// Update changes the state of a run. It may be called from any goroutine; after Run it does nothing.
func (w *Watcher) Update(run int, f func(*State)) {
	select {
	case w.updates <- func() { f(w.states[run]) }:
	case <-w.done:
	}
}

// Run draws until the user quits, ctx is done or the terminal is gone, and restores the terminal's settings.
func (w *Watcher) Run(ctx context.Context) (err error) {
	defer close(w.done)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGHUP, syscall.SIGWINCH)
	defer signal.Stop(signals)
	var keys chan []key
	gone := make(chan error, 1)
	if w.Keys != nil {
		stop, stopped := make(chan struct{}), make(chan struct{})
		keys = make(chan []key)
		go func() {
			defer close(stopped)
			w.readKeys(keys, gone, stop)
		}()
		defer func() {
			close(stop)
			<-stopped
			if restored := w.Keys.Restore(); err == nil {
				err = restored
			}
		}()
	}
	clock := time.NewTicker(clockEvery)
	defer clock.Stop()
	for {
		if err := w.draw(); err != nil {
			return err
		}
		if w.Keys == nil && !slices.ContainsFunc(w.states, func(s *State) bool { return !s.Over }) {
			return nil
		}
		// Several changes within drawEvery are drawn together.
		var soon <-chan time.Time
		for drawn, again := time.Now(), false; !again; {
			select {
			case <-ctx.Done():
				return nil
			case <-gone:
				return nil
			case f := <-w.updates:
				f()
				if soon == nil {
					soon = time.After(drawEvery - min(time.Since(drawn), drawEvery))
				}
			case pressed := <-keys:
				for _, k := range pressed {
					if w.press(k) {
						return nil
					}
				}
				again = true
			case s := <-signals:
				if again = true; s == syscall.SIGHUP {
					return nil
				}
				w.signal(s)
			case <-soon:
				again = true
			case <-clock.C:
				again = true
			}
		}
	}
}

// readKeys sends keys until stop is closed.
func (w *Watcher) readKeys(keys chan<- []key, gone chan<- error, stop <-chan struct{}) {
	for {
		pressed, err := w.Keys.read()
		if err != nil {
			gone <- err
			return
		}
		if len(pressed) > 0 {
			select {
			case keys <- pressed:
			case <-stop:
				return
			}
		}
		select {
		case <-stop:
			return
		default:
		}
	}
}

// signal handles Ctrl-Z and its end.
func (w *Watcher) signal(s os.Signal) {
	switch s {
	case syscall.SIGTSTP:
		if w.Keys != nil {
			w.Keys.Restore()
		}
		w.screen.forget()
		syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) // SIGTSTP is caught
	case syscall.SIGCONT:
		if w.Keys != nil {
			w.Keys.Resume()
		}
		w.screen.forget()
	}
}

// press handles a key and reports whether it quits.
func (w *Watcher) press(k key) (quit bool) {
	if w.o.help && k != keyQuit {
		w.o.help = false
		return false
	}
	switch k {
	case keyQuit:
		return true
	case keyKeys:
		w.o.help = true
	case keyRun:
		w.at, w.o.offset = (w.at+1)%len(w.states), 0
	case keyTab:
		w.o.pane, w.o.offset = (w.o.pane+1)%panes, 0
	case keyBackTab:
		w.o.pane, w.o.offset = (w.o.pane+panes-1)%panes, 0
	case keyLeft, keyRight:
		step := 1
		if k == keyLeft {
			step = len(metrics) - 1
		}
		if w.o.pane == chartPane {
			w.o.metric = (w.o.metric + step) % len(metrics)
		}
		w.o.pane, w.o.offset = chartPane, 0
	case keyUp, keyDown:
		step := 1
		if (k == keyUp) != (w.o.pane == notesPane) { // notes start at their end
			step = -1
		}
		w.o.offset = min(max(w.o.offset+step, 0), w.states[w.at].length(w.o.pane))
	case keyRedraw:
		w.screen.shown = ""
	default:
		if k >= keyPane && k < keyPane+key(panes) {
			w.o.pane, w.o.offset = pane(k-keyPane), 0
		}
	}
	return false
}

// length bounds the offset of a pane.
func (s *State) length(p pane) int {
	switch {
	case p == notesPane:
		return 10 * len(s.notes)
	case p == ranksPane && s.last.Ranks != nil:
		return len(s.last.Ranks.Own)
	}
	return 100
}

func (w *Watcher) draw() error {
	if w.Keys != nil && !w.Keys.foreground() {
		return nil // the terminal is the shell's
	}
	columns, rows := w.term.Size()
	w.o.width, w.o.height = columns, max(rows-1, 0)
	return w.screen.draw(w.states[w.at].lines(time.Now(), w.o), "", columns, rows, false)
}

// Frame returns one frame as text, for a terminal of columns and rows.
func (s *State) Frame(t Terminal) string {
	o := options{unicode: t.Unicode, notes: true}
	o.width, o.height = t.Size()
	if t.Color {
		o.s = colors
	}
	var b []byte
	for _, line := range s.lines(time.Now(), o) {
		b = append(append(b, line...), '\n')
	}
	return string(b)
}
