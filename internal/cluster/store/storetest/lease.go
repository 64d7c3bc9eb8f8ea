package storetest

import (
	"testing"
	"time"

	"trireme/internal/cluster/store"
)

func lost(l *store.Lease) bool {
	select {
	case <-l.Lost():
		return true
	default:
		return false
	}
}

// testLease keeps a lease for several ttl, then ends its owner.
func testLease(t *testing.T, setup Setup) {
	ctx, a, b := timeout(t), setup.open(t), setup.open(t)
	w, err := b.Watch(ctx, "hosts/")
	want(t, "Watch", err, nil)
	expect(t, w, store.Synced, "", "", 0)
	l, err := a.Lease(ctx, "hosts/a", []byte("8"), setup.TTL)
	want(t, "Lease", err, nil)
	_, err = b.Lease(ctx, "hosts/a", nil, setup.TTL)
	want(t, "second Lease", err, store.ErrExists)
	_, err = b.Create(ctx, "hosts/a", nil)
	want(t, "Create of a leased key", err, store.ErrExists)
	e := next(t, w)
	if e.Kind != store.Put || e.Key != "hosts/a" || string(e.Value) != "8" {
		t.Fatalf("event %v", e)
	}
	select {
	case e := <-w.Events():
		t.Fatalf("event %v %s while the lease is held", e.Kind, e.Key)
	case <-l.Lost():
		t.Fatal(l.Err())
	case <-time.After(3*setup.TTL + setup.Slack):
	}
	got, err := b.Get(ctx, "hosts/a")
	if err != nil || got.Revision != e.Revision || string(got.Value) != "8" {
		t.Fatalf("Get: %v, %v; want revision %d, as in the event", got, err, e.Revision)
	}
	stopped := time.Now()
	a.Close()
	expect(t, w, store.Deleted, "hosts/a", "", 0)
	took := time.Since(stopped)
	t.Logf("ttl %v: deleted %v after its owner ended", setup.TTL, took)
	if took > setup.TTL+setup.Slack {
		t.Errorf("the key was deleted after %v, ttl %v, slack %v", took, setup.TTL, setup.Slack)
	}
	if took < setup.TTL/2 {
		t.Errorf("the key was deleted after %v, ttl %v", took, setup.TTL)
	}
	_, err = b.Lease(ctx, "hosts/a", nil, setup.TTL)
	want(t, "Lease after the end", err, nil)
}

// testLeaseOwner checks what the owner sees: release, and a deletion by another client.
func testLeaseOwner(t *testing.T, setup Setup) {
	ctx, a, b := timeout(t), setup.open(t), setup.open(t)
	l, err := a.Lease(ctx, "x", nil, setup.TTL)
	want(t, "Lease", err, nil)
	want(t, "Release", l.Release(ctx), nil)
	_, err = b.Get(ctx, "x")
	want(t, "Get after Release", err, store.ErrNotFound)
	want(t, "second Release", l.Release(ctx), nil)
	want(t, "Err after Release", l.Err(), store.ErrClosed)
	if lost(l) {
		t.Error("a released lease is lost")
	}

	l, err = a.Lease(ctx, "x", nil, setup.TTL)
	want(t, "Lease", err, nil)
	time.Sleep(setup.TTL)
	e, err := b.Get(ctx, "x")
	want(t, "Get", err, nil)
	want(t, "Delete of a leased key", b.Delete(ctx, "x", e.Revision), nil)
	r, err := b.Create(ctx, "x", []byte("other"))
	want(t, "Create after Delete", err, nil)
	select {
	case <-l.Lost():
	case <-time.After(setup.TTL + setup.Slack):
		t.Fatal("the owner does not notice that its key was deleted")
	}
	want(t, "Err", l.Err(), store.ErrLeaseLost)
	want(t, "Release", l.Release(ctx), nil)
	time.Sleep(setup.TTL)
	if e, err := b.Get(ctx, "x"); err != nil || e.Revision != r {
		t.Errorf("the key of another owner: %v, %v", e, err)
	}
}

// testLeaseValues updates the value of a lease.
func testLeaseValues(t *testing.T, setup Setup) {
	ctx, a, b := timeout(t), setup.open(t), setup.open(t)
	w, err := b.Watch(ctx, "")
	want(t, "Watch", err, nil)
	expect(t, w, store.Synced, "", "", 0)
	l, err := a.Lease(ctx, "x", []byte("1"), setup.TTL)
	want(t, "Lease", err, nil)
	e := next(t, w)
	_, err = b.Update(ctx, "x", nil, e.Revision)
	want(t, "Update of a leased key", err, store.ErrConflict)
	for _, v := range []string{"2", "3"} {
		time.Sleep(setup.TTL / 2)
		r, err := l.Update(ctx, []byte(v))
		want(t, "Update", err, nil)
		expect(t, w, store.Put, "x", v, r)
	}
	l.Abandon()
	expect(t, w, store.Deleted, "x", "", 0)
	_, err = l.Update(ctx, nil)
	want(t, "Update after Abandon", err, store.ErrClosed)
}
