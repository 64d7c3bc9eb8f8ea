package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"trireme/internal/tracing"
)

// traceFlag is --trace, which may be repeated.
type traceFlag []tracing.Window

// String returns the windows as they are written on the command line.
func (f *traceFlag) String() string {
	var all []string
	for _, w := range *f {
		text := fmt.Sprintf("steps=%d-%d", w.First, w.Last)
		switch {
		case w.Chrome && w.Perfetto:
			text += ",format=both"
		case w.Chrome:
			text += ",format=chrome"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// Set adds a window.
func (f *traceFlag) Set(text string) error {
	w, err := tracing.ParseWindow(text, false)
	if err == nil {
		*f = append(*f, w)
	}
	return err
}

// Type names the flag's value in help.
func (f *traceFlag) Type() string { return "steps=A-B" }

// Append, Replace and GetSlice make a command line of several windows for other processes (pflag.SliceValue).
func (f *traceFlag) Append(text string) error { return f.Set(text) }

// Replace replaces the windows.
func (f *traceFlag) Replace(texts []string) error {
	*f = nil
	for _, t := range texts {
		if err := f.Set(t); err != nil {
			return err
		}
	}
	return nil
}

// GetSlice returns each window as text.
func (f *traceFlag) GetSlice() []string { return strings.Fields(f.String()) }

// openTracer starts to collect spans of a rank, as --trace and requests say.
func (j *job) openTracer(w *world) *tracing.Collector {
	host, _ := os.Hostname() // may be empty
	cfg := tracing.Config{Rank: w.env.Rank, Size: w.env.WorldSize, Host: host, Recorder: w.conn.trace, Windows: slices.Clone(j.trace), Run: j.cfg.OutputDir}
	if w.store != nil {
		cfg.Store = w.store
	}
	return tracing.New(cfg)
}

// closeTracer waits for the last trace and prints what came of it.
func (w *world) closeTracer(t *tracing.Collector) {
	t.Close()
	for _, n := range t.Notes() {
		w.conn.note(n)
	}
}
