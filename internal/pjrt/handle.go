package pjrt

import (
	"errors"
	"sync"
)

// ErrClosed is the error of a use after Close.
var ErrClosed = errors.New("already closed")

// handle is a pointer to an object of the plug-in. The object is destroyed after Close, when its last
// use ends: a call in progress, or an object made from it.
type handle struct {
	mu      sync.Mutex
	ptr     uintptr
	uses    int
	closed  bool
	destroy func(ptr uintptr)
}

// acquire returns the pointer, which stays valid until release.
func (h *handle) acquire() (uintptr, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return 0, ErrClosed
	}
	h.uses++
	return h.ptr, nil
}

// retain adds a use to those of a caller that has one, also after Close.
func (h *handle) retain() {
	h.mu.Lock()
	h.uses++
	h.mu.Unlock()
}

func (h *handle) release() {
	h.mu.Lock()
	h.uses--
	last := h.closed && h.uses == 0
	h.mu.Unlock()
	if last {
		h.destroy(h.ptr)
	}
}

// close ends the object's life; it returns false if that was done before.
func (h *handle) close() bool {
	h.mu.Lock()
	first := !h.closed
	h.closed = true
	last := first && h.uses == 0
	h.mu.Unlock()
	if last {
		h.destroy(h.ptr)
	}
	return first
}

// live returns the number of uses.
func (h *handle) live() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.uses
}
