package pjrt

import "fmt"

// Event becomes ready when something asynchronous is done.
type Event struct {
	client *Client
	h      handle
}

// event makes an Event; the plug-in writes to dst until the event is ready.
func (c *Client) event(ptr uintptr, dst []byte) *Event {
	e := &Event{client: c}
	e.h = c.child(ptr, func(ptr uintptr) {
		if _, ok := c.writes.Load(e); ok {
			_ = call(c.plugin, fnEventAwait, &eventAwaitArgs{Event: ptr})
			c.writes.Delete(e)
		}
		_ = call(c.plugin, fnEventDestroy, &eventDestroyArgs{Event: ptr})
	})
	if dst != nil {
		c.writes.Store(e, dst)
	}
	return e
}

// Await waits until the event is ready and returns the error of what it waited for.
func (e *Event) Await() error {
	if _, err := e.h.acquire(); err != nil {
		return fmt.Errorf("pjrt: event: %w", err)
	}
	defer e.h.release()
	err := e.await()
	e.client.writes.Delete(e)
	return err
}

// await is Await of a caller that has acquired the handle.
func (e *Event) await() error {
	return call(e.client.plugin, fnEventAwait, &eventAwaitArgs{Event: e.h.ptr})
}

// Ready reports whether the event is ready, and the error that Await returns. It does not wait.
func (e *Event) Ready() (bool, error) {
	ptr, err := e.h.acquire()
	if err != nil {
		return false, fmt.Errorf("pjrt: event: %w", err)
	}
	defer e.h.release()
	a := eventIsReadyArgs{Event: ptr}
	if err := call(e.client.plugin, fnEventIsReady, &a); err != nil || !a.IsReady {
		return false, err
	}
	return true, call(e.client.plugin, fnEventError, &eventErrorArgs{Event: ptr})
}

// Close releases the event. The event of a download waits until the copy is done.
func (e *Event) Close() { e.h.close() }
