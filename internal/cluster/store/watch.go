package store

import (
	"context"
	"sync"
)

// Kind is the kind of an Event.
type Kind int

const (
	// Put: the key has a new value; also each entry that exists when the watch starts.
	Put Kind = iota + 1
	// Deleted: the key was deleted or its lease ended. Revision is the one of the deletion; Value is nil.
	Deleted
	// Synced: all entries that existed when the watch started were sent. It has no Entry.
	Synced
)

func (k Kind) String() string {
	switch k {
	case Put:
		return "put"
	case Deleted:
		return "deleted"
	case Synced:
		return "synced"
	}
	return "unknown"
}

// Event is a change of a key.
type Event struct {
	Kind Kind
	Entry
}

// Watch is a running watch. Its owner reads Events until the channel closes, or calls Stop.
type Watch struct {
	events chan Event
	stop   context.CancelFunc
	done   chan struct{}

	mu  sync.Mutex
	err error
}

// NewWatch starts run in a goroutine and returns the Watch of the events that it emits, for packages that
// implement Store. emit waits for the reader and returns an error when ctx ends. The watch ends with run's
// error, or with ctx's if ctx has ended.
func NewWatch(ctx context.Context, run func(ctx context.Context, emit func(Event) error) error) *Watch {
	ctx, stop := context.WithCancel(ctx)
	w := &Watch{events: make(chan Event, 16), stop: stop, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		defer close(w.events)
		defer stop()
		err := run(ctx, func(e Event) error {
			select {
			case w.events <- e:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		w.mu.Lock()
		w.err = err
		w.mu.Unlock()
	}()
	return w
}

// Events is the channel of events. It closes when the watch ends; Err then has the reason.
func (w *Watch) Events() <-chan Event { return w.events }

// Err returns the reason of the end: the context's error, or that of the store. It is nil while the watch
// runs.
func (w *Watch) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Stop ends the watch and waits for its goroutine. Events that were not read are dropped.
func (w *Watch) Stop() {
	w.stop()
	<-w.done
}
