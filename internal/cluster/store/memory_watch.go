package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// memoryWatch queues the events of a watch.
type memoryWatch struct {
	client *MemoryClient
	prefix string
	ready  chan struct{} // has a value if the queue may have events

	mu    sync.Mutex
	queue []Event
}

func (w *memoryWatch) add(e Event) {
	e.Entry = e.Entry.clone()
	w.mu.Lock()
	w.queue = append(w.queue, e)
	w.mu.Unlock()
	w.wake()
}

func (w *memoryWatch) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

func (w *memoryWatch) take() (events []Event) {
	if !w.client.reachable() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	events, w.queue = w.queue, nil
	return events
}

// Watch implements Store.
func (c *MemoryClient) Watch(ctx context.Context, prefix string) (*Watch, error) {
	if err := CheckPrefix(prefix); err != nil {
		return nil, err
	}
	m := c.memory
	if err := c.begin(ctx, prefix); err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	w := &memoryWatch{client: c, prefix: prefix, ready: make(chan struct{}, 1)}
	for key, e := range m.entries {
		if strings.HasPrefix(key, prefix) {
			w.add(Event{Kind: Put, Entry: e.Entry})
		}
	}
	slices.SortFunc(w.queue, func(a, b Event) int { return strings.Compare(a.Key, b.Key) })
	w.add(Event{Kind: Synced})
	m.watches[w] = struct{}{}
	m.mu.Unlock()
	return NewWatch(ctx, func(ctx context.Context, emit func(Event) error) error {
		defer func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.watches, w)
		}()
		for {
			for _, e := range w.take() {
				if err := emit(e); err != nil {
					return err
				}
			}
			select {
			case <-w.ready:
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-c.ctx.Done():
				return Error(prefix, ErrClosed)
			}
		}
	}), nil
}
