package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"trireme/internal/cluster/store"
	"trireme/internal/cluster/store/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Setup {
		m := store.NewMemory(nil)
		return storetest.Setup{
			Open:  func(*testing.T) store.Store { return m.Client() },
			TTL:   200 * time.Millisecond,
			Slack: 2 * time.Second,
		}
	})
}

// TestSimulatedLease drives leases by a simulated clock, without waiting.
func TestSimulatedLease(t *testing.T) {
	clock := storetest.NewClock()
	m := store.NewMemory(clock)
	a, b := m.Client(), m.Client()
	ctx := t.Context()
	la, err := a.Lease(ctx, "hosts/a", nil, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	lb, err := b.Lease(ctx, "hosts/b", nil, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Hour)
	if la.Err() != nil || lb.Err() != nil {
		t.Fatal(la.Err(), lb.Err())
	}
	a.Cut(true)
	if _, err := a.Get(ctx, "hosts/a"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Get of a client that is cut: %v", err)
	}
	clock.Advance(1900 * time.Millisecond)
	if _, err := b.Get(ctx, "hosts/a"); err != nil || la.Err() != nil {
		t.Errorf("before the ttl ends: %v, %v", err, la.Err())
	}
	clock.Advance(1100 * time.Millisecond)
	if _, err := b.Get(ctx, "hosts/a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after the ttl: %v", err)
	}
	if err := la.Err(); !errors.Is(err, store.ErrLeaseLost) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the owner: %v", err)
	}
	if lb.Err() != nil {
		t.Errorf("the other owner: %v", lb.Err())
	}
	a.Cut(false)
	if _, err := a.Lease(ctx, "hosts/a", nil, 3*time.Second); err != nil {
		t.Errorf("a new lease: %v", err)
	}
}

// TestCutWatch checks that a watch continues after a cut, with the changes that it missed.
func TestCutWatch(t *testing.T) {
	m := store.NewMemory(nil)
	a, b := m.Client(), m.Client()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	w, err := a.Watch(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	<-w.Events()
	a.Cut(true)
	if _, err := b.Create(ctx, "x", []byte("1")); err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-w.Events():
		t.Fatalf("event %v over a cut link", e)
	case <-time.After(50 * time.Millisecond):
	}
	a.Cut(false)
	if e := <-w.Events(); e.Key != "x" {
		t.Fatalf("event %v after the cut", e)
	}
}
