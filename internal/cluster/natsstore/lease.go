package natsstore

import (
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"trireme/internal/cluster/store"
)

// Lease implements store.Store.
func (c *client) Lease(ctx context.Context, key string, value []byte, ttl time.Duration) (*store.Lease, error) {
	if err := store.CheckLease(key, value, ttl); err != nil {
		return nil, err
	}
	value = slices.Clone(value)
	granted := time.Now()
	sequence, err := c.add(ctx, key, func(expect uint64) *nats.Msg {
		granted = time.Now()
		return lease(change(key, expect, leased, value), ttl, 0)
	})
	if err != nil {
		return nil, err
	}
	h := &held{client: c, key: key, ttl: ttl, value: value, sequence: sequence, revision: revisionOf(sequence, leased)}
	l := store.KeepLease(key, ttl, granted, store.RealClock, h)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		l.Abandon()
	}
	c.leases = append(slices.DeleteFunc(c.leases, func(l *store.Lease) bool { return l.Err() != nil }), l)
	return l, nil
}

// held is the owner's side of a lease.
type held struct {
	client   *client
	key      string
	ttl      time.Duration
	value    []byte
	sequence uint64    // of the last message
	revision uint64    // of value
	unsure   *nats.Msg // the last change, if its answer was lost
}

var _ store.Owned = (*held)(nil)

// send publishes a change that follows the last message.
func (h *held) send(ctx context.Context, m *nats.Msg) error {
	setExpect(m, h.sequence)
	h.unsure = m
	return h.settle(ctx)
}

// settle publishes the unsure change, which may have been stored.
func (h *held) settle(ctx context.Context) error {
	m := h.unsure
	if m == nil {
		return nil
	}
	sequence, err := h.client.publish(ctx, h.key, m)
	if err != nil {
		return err
	}
	h.unsure, h.sequence = nil, sequence
	if m.Header.Get(valueHeader) == "" {
		h.value, h.revision = m.Data, revisionOf(sequence, leased)
	}
	return nil
}

// Renew implements store.Owned.
func (h *held) Renew(ctx context.Context) error {
	if err := h.settle(ctx); err != nil {
		return err
	}
	return h.send(ctx, lease(change(h.key, h.sequence, leased, h.value), h.ttl, h.revision))
}

// Update implements store.Owned.
func (h *held) Update(ctx context.Context, value []byte) (uint64, error) {
	if err := h.settle(ctx); err != nil {
		return 0, err
	}
	err := h.send(ctx, lease(change(h.key, h.sequence, leased, slices.Clone(value)), h.ttl, 0))
	return h.revision, err
}

// Release implements store.Owned.
func (h *held) Release(ctx context.Context) error {
	if err := h.settle(ctx); err != nil {
		return err
	}
	_, err := h.client.publish(ctx, h.key, change(h.key, h.sequence, deleted, nil))
	return err
}
