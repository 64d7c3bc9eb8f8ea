package store

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// Memory is a store in the memory of this process, for one host and for tests. Client returns its clients.
type Memory struct {
	clock Clock

	mu       sync.Mutex
	revision uint64
	entries  map[string]*memoryEntry
	watches  map[*memoryWatch]struct{}
}

type memoryEntry struct {
	Entry
	lease *memoryLease // nil without one
}

// NewMemory returns an empty store. clock measures leases; nil is RealClock.
func NewMemory(clock Clock) *Memory {
	if clock == nil {
		clock = RealClock
	}
	return &Memory{clock: clock, entries: map[string]*memoryEntry{}, watches: map[*memoryWatch]struct{}{}}
}

// Client returns a client. Each process of a simulation has one of its own.
func (m *Memory) Client() *MemoryClient {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &MemoryClient{memory: m, ctx: ctx, cancel: cancel}
}

// put stores a value and notifies watches. m.mu is held.
func (m *Memory) put(key string, value []byte, lease *memoryLease) uint64 {
	m.revision++
	e := Entry{Key: key, Value: slices.Clone(value), Revision: m.revision}
	m.entries[key] = &memoryEntry{e, lease}
	m.notify(Event{Kind: Put, Entry: e})
	return m.revision
}

// remove deletes an entry, ends its lease and notifies watches. m.mu is held.
func (m *Memory) remove(e *memoryEntry) {
	if e.lease != nil {
		e.lease.stop()
	}
	delete(m.entries, e.Key)
	m.revision++
	m.notify(Event{Kind: Deleted, Entry: Entry{Key: e.Key, Revision: m.revision}})
}

func (m *Memory) notify(e Event) {
	for w := range m.watches {
		if strings.HasPrefix(e.Key, w.prefix) {
			w.add(e)
		}
	}
}

// MemoryClient is a client of a Memory.
type MemoryClient struct {
	memory *Memory
	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	cut    bool
	leases []*Lease
}

var _ Store = (*MemoryClient)(nil)

// Cut makes each call fail with ErrUnavailable, as a broken network does, until Cut(false). Watches and leases
// of the client continue when they can: a watch with the changes that it missed.
func (c *MemoryClient) Cut(cut bool) {
	c.mu.Lock()
	c.cut = cut
	c.mu.Unlock()
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	for w := range c.memory.watches {
		if w.client == c {
			w.wake()
		}
	}
}

func (c *MemoryClient) reachable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.cut
}

// begin checks that a call may run and takes the lock of the memory.
func (c *MemoryClient) begin(ctx context.Context, key string) error {
	switch {
	case c.ctx.Err() != nil:
		return Error(key, ErrClosed)
	case ctx.Err() != nil:
		return Error(key, context.Cause(ctx))
	case !c.reachable():
		return Error(key, ErrUnavailable)
	}
	c.memory.mu.Lock()
	return nil
}

// Get implements Store.
func (c *MemoryClient) Get(ctx context.Context, key string) (Entry, error) {
	if err := CheckKey(key); err != nil {
		return Entry{}, err
	}
	if err := c.begin(ctx, key); err != nil {
		return Entry{}, err
	}
	defer c.memory.mu.Unlock()
	e, ok := c.memory.entries[key]
	if !ok {
		return Entry{}, Error(key, ErrNotFound)
	}
	return e.Entry.clone(), nil
}

func (e Entry) clone() Entry {
	e.Value = slices.Clone(e.Value)
	return e
}

// Create implements Store.
func (c *MemoryClient) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	if err := CheckWrite(key, value); err != nil {
		return 0, err
	}
	if err := c.begin(ctx, key); err != nil {
		return 0, err
	}
	defer c.memory.mu.Unlock()
	if _, ok := c.memory.entries[key]; ok {
		return 0, Error(key, ErrExists)
	}
	return c.memory.put(key, value, nil), nil
}

// Update implements Store.
func (c *MemoryClient) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if err := CheckWrite(key, value); err != nil {
		return 0, err
	}
	if err := c.begin(ctx, key); err != nil {
		return 0, err
	}
	defer c.memory.mu.Unlock()
	if e, ok := c.memory.entries[key]; !ok || e.Revision != revision || e.lease != nil {
		return 0, Error(key, ErrConflict)
	}
	return c.memory.put(key, value, nil), nil
}

// Delete implements Store.
func (c *MemoryClient) Delete(ctx context.Context, key string, revision uint64) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	if err := c.begin(ctx, key); err != nil {
		return err
	}
	defer c.memory.mu.Unlock()
	e, ok := c.memory.entries[key]
	if !ok || e.Revision != revision {
		return Error(key, ErrConflict)
	}
	c.memory.remove(e)
	return nil
}

// Close implements Store.
func (c *MemoryClient) Close() error {
	c.cancel(ErrClosed)
	c.mu.Lock()
	leases := c.leases
	c.leases = nil
	c.mu.Unlock()
	for _, l := range leases {
		l.Abandon()
	}
	return nil
}
