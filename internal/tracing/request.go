package tracing

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// Request is the name of the file in a run's directory that asks for a trace of the next steps: steps=3.
const Request = "trace.request"

const (
	requestEvery = time.Second // between two looks for the file
	requestBytes = 4096
)

// request watches for the file.
type request struct {
	path  string
	note  func(format string, args ...any)
	found atomic.Pointer[Window]
	empty bool    // the file was empty at the last look
	taken *Window // returned by take, and not yet begun
	stop  chan struct{}
	ended chan struct{}
}

func watchRequest(dir string, note func(format string, args ...any)) *request {
	r := &request{path: filepath.Join(dir, Request), note: note, stop: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		t := time.NewTicker(requestEvery)
		defer t.Stop()
		for ok := true; ok; {
			if r.found.Load() == nil {
				ok = r.look()
			}
			select {
			case <-r.stop:
				return
			case <-t.C:
			}
		}
	}()
	return r
}

// look reads and removes the file. It returns false if the file cannot be removed: it would be found again.
func (r *request) look() bool {
	f, err := os.Open(r.path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.note("%v", err)
			return false
		}
		return true
	}
	text, err := io.ReadAll(io.LimitReader(f, requestBytes))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil && len(text) == 0 && !r.empty { // somebody may be about to write it
		r.empty = true
		return true
	}
	r.empty = false
	if removed := os.Remove(r.path); err == nil {
		err = removed
	}
	if err != nil {
		r.note("%v", err)
		return false
	}
	if len(text) == 0 {
		text = []byte("steps=3")
	}
	w, err := ParseWindow(string(text), true)
	if err != nil {
		r.note("%s: %v. try: echo steps=3 > %s", r.path, err, r.path)
		return true
	}
	r.found.Store(&w)
	return true
}

// take returns the steps of a new request, or 0.
func (r *request) take() int64 {
	w := r.found.Swap(nil)
	if w == nil {
		return 0
	}
	r.taken = w
	return w.Last
}

func (r *request) close() {
	close(r.stop)
	<-r.ended
}
