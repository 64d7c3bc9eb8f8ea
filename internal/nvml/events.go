package nvml

import "errors"

const eventXID = 8

// Events are critical errors (XIDs) of some GPUs from its creation on.
type Events struct {
	l     *Library
	set   uintptr
	cards []Card
}

// WatchXIDs registers for errors of cards. It returns nil if the library or the GPUs do not report them.
func (l *Library) WatchXIDs(cards []Card) *Events {
	if l.newEvents == nil || l.registerXID == nil || l.waitEvents == nil || l.freeEvents == nil {
		return nil
	}
	e := &Events{l: l}
	if l.newEvents(&e.set) != 0 {
		return nil
	}
	for _, c := range cards {
		if l.registerXID(c.handle, eventXID, e.set) == 0 {
			e.cards = append(e.cards, c)
		}
	}
	if len(e.cards) == 0 {
		e.Close()
		return nil
	}
	return e
}

// Next returns the oldest unread error as *XIDError, nil if there is none. It does not wait.
func (e *Events) Next() error {
	var d eventData
	err := check("nvmlEventSetWait_v2", e.l.waitEvents(e.set, &d, 0))
	switch {
	case errors.Is(err, codeTimeout):
		return nil
	case err != nil:
		return err
	}
	for _, c := range e.cards {
		if c.handle == d.device {
			return &XIDError{Card: c, XID: int(d.data)}
		}
	}
	return nil
}

// Close ends the registration.
func (e *Events) Close() { e.l.freeEvents(e.set) }
