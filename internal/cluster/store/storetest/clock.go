package storetest

import (
	"sync"
	"time"
)

// Clock is a store.Clock that a test advances. Its functions run in the goroutine that calls Advance, in the
// order of their times.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	number int
	timers map[int]timer
}

type timer struct {
	at time.Time
	f  func()
}

// NewClock returns a clock at a fixed time.
func NewClock() *Clock {
	return &Clock{now: time.Unix(1_700_000_000, 0), timers: map[int]timer{}}
}

// Now implements store.Clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc implements store.Clock.
func (c *Clock) AfterFunc(d time.Duration, f func()) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	id := c.number
	c.timers[id] = timer{c.now.Add(max(d, 0)), f}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.timers, id)
	}
}

// Advance moves the time by d and runs the functions that become due, at their times.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	end := c.now.Add(d)
	for {
		first := 0
		for id, t := range c.timers {
			if t.at.After(end) {
				continue
			}
			if f, ok := c.timers[first]; !ok || t.at.Before(f.at) || t.at.Equal(f.at) && id < first {
				first = id
			}
		}
		t, ok := c.timers[first]
		if !ok {
			break
		}
		delete(c.timers, first)
		c.now = t.at
		c.mu.Unlock()
		t.f()
		c.mu.Lock()
	}
	c.now = end
	c.mu.Unlock()
}
