package store

import (
	"context"
	"slices"
	"time"
)

// Lease implements Store.
func (c *MemoryClient) Lease(ctx context.Context, key string, value []byte, ttl time.Duration) (*Lease, error) {
	if err := CheckLease(key, value, ttl); err != nil {
		return nil, err
	}
	granted := c.memory.clock.Now()
	if err := c.begin(ctx, key); err != nil {
		return nil, err
	}
	if _, ok := c.memory.entries[key]; ok {
		c.memory.mu.Unlock()
		return nil, Error(key, ErrExists)
	}
	ml := &memoryLease{client: c, key: key, ttl: ttl}
	c.memory.put(key, value, ml)
	ml.extend()
	c.memory.mu.Unlock()
	l := KeepLease(key, ttl, granted, c.memory.clock, ml)
	c.mu.Lock()
	c.leases = append(slices.DeleteFunc(c.leases, func(l *Lease) bool { return l.Err() != nil }), l)
	c.mu.Unlock()
	return l, nil
}

// memoryLease is the lease of a memoryEntry.
type memoryLease struct {
	client *MemoryClient
	key    string
	ttl    time.Duration
	timer  func() // stops the expiry
}

func (l *memoryLease) stop() {
	if l.timer != nil {
		l.timer()
	}
}

// extend restarts the expiry. The memory's lock is held.
func (l *memoryLease) extend() {
	l.stop()
	m := l.client.memory
	due := m.clock.Now().Add(l.ttl)
	l.timer = m.clock.AfterFunc(l.ttl, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if e, ok := m.entries[l.key]; ok && e.lease == l && !m.clock.Now().Before(due) {
			m.remove(e)
		}
	})
}

// own takes the memory's lock if the lease is still that of its key.
func (l *memoryLease) own(ctx context.Context) (*memoryEntry, error) {
	if err := l.client.begin(ctx, l.key); err != nil {
		return nil, err
	}
	e, ok := l.client.memory.entries[l.key]
	if !ok || e.lease != l {
		l.client.memory.mu.Unlock()
		return nil, Error(l.key, ErrConflict)
	}
	return e, nil
}

// Renew implements Owned.
func (l *memoryLease) Renew(ctx context.Context) error {
	if _, err := l.own(ctx); err != nil {
		return err
	}
	defer l.client.memory.mu.Unlock()
	l.extend()
	return nil
}

// Update implements Owned.
func (l *memoryLease) Update(ctx context.Context, value []byte) (uint64, error) {
	if _, err := l.own(ctx); err != nil {
		return 0, err
	}
	defer l.client.memory.mu.Unlock()
	return l.client.memory.put(l.key, value, l), nil
}

// Release implements Owned.
func (l *memoryLease) Release(ctx context.Context) error {
	e, err := l.own(ctx)
	if err != nil {
		return err
	}
	defer l.client.memory.mu.Unlock()
	l.client.memory.remove(e)
	return nil
}
