package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"trireme/internal/cluster/store"
)

func next(t *testing.T, w *store.Watch) store.Event {
	t.Helper()
	select {
	case e, ok := <-w.Events():
		if !ok {
			t.Fatalf("the watch has ended: %v", w.Err())
		}
		return e
	case <-time.After(limit):
		t.Fatal("no event")
	}
	panic("unreachable")
}

func expect(t *testing.T, w *store.Watch, kind store.Kind, key, value string, revision uint64) {
	t.Helper()
	e := next(t, w)
	if e.Kind != kind || e.Key != key || string(e.Value) != value || revision != 0 && e.Revision != revision {
		t.Fatalf("event %v %s=%q at %d, want %v %s=%q at %d", e.Kind, e.Key, e.Value, e.Revision, kind, key, value, revision)
	}
}

func testWatch(t *testing.T, setup Setup) {
	ctx, a, b := timeout(t), setup.open(t), setup.open(t)
	r1, err := a.Create(ctx, "job/x", []byte("1"))
	want(t, "Create", err, nil)
	_, err = a.Create(ctx, "other/x", []byte("1"))
	want(t, "Create", err, nil)
	_, err = a.Create(ctx, "jobs", []byte("1"))
	want(t, "Create", err, nil)
	gone, err := a.Create(ctx, "job/gone", []byte("1"))
	want(t, "Create", err, nil)
	want(t, "Delete", a.Delete(ctx, "job/gone", gone), nil)
	w, err := b.Watch(ctx, "job/")
	want(t, "Watch", err, nil)
	expect(t, w, store.Put, "job/x", "1", r1)
	expect(t, w, store.Synced, "", "", 0)
	r2, err := a.Update(ctx, "job/x", []byte("2"), r1)
	want(t, "Update", err, nil)
	_, err = a.Create(ctx, "other/y", nil)
	want(t, "Create", err, nil)
	r3, err := a.Create(ctx, "job/y/z", []byte("3"))
	want(t, "Create", err, nil)
	want(t, "Delete", a.Delete(ctx, "job/x", r2), nil)
	expect(t, w, store.Put, "job/x", "2", r2)
	expect(t, w, store.Put, "job/y/z", "3", r3)
	if e := next(t, w); e.Kind != store.Deleted || e.Key != "job/x" || e.Value != nil || e.Revision <= r3 {
		t.Fatalf("event %v, want the deletion of job/x", e)
	}
	w.Stop()
	if err := w.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("Err after Stop: %v", err)
	}
}

// testList lists the keys through one client after each change by another: a change that is confirmed is in the list.
func testList(t *testing.T, setup Setup) {
	ctx, a, b := timeout(t), setup.open(t), setup.open(t)
	for i := range 50 {
		_, err := a.Create(ctx, fmt.Sprintf("l/%02d", i), nil)
		want(t, "Create", err, nil)
		all, err := store.List(ctx, b, "l/")
		if err != nil || len(all) != i+1 {
			t.Fatalf("List after %d keys: %d, %v", i+1, len(all), err)
		}
	}
}

// testWatchOrder starts watches while keys change: each has the state at its start and every later change.
func testWatchOrder(t *testing.T, setup Setup) {
	ctx := timeout(t)
	const keys, changes, watches = 3, 60, 4
	var writers, readers sync.WaitGroup
	for k := range keys {
		s := setup.open(t)
		writers.Go(func() {
			key := fmt.Sprintf("w/%d", k)
			rev, err := s.Create(ctx, key, []byte("0"))
			for i := 1; err == nil && i <= changes; i++ {
				rev, err = s.Update(ctx, key, []byte(strconv.Itoa(i)), rev)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range watches {
		s := setup.open(t)
		w, err := s.Watch(ctx, "w/")
		want(t, "Watch", err, nil)
		readers.Go(func() {
			defer w.Stop()
			last, synced, ends := map[string]int{}, false, 0
			var rev uint64
			for e := range w.Events() {
				if e.Kind == store.Synced {
					synced = true
					continue
				}
				n, _ := strconv.Atoi(string(e.Value))
				before, ok := last[e.Key]
				if synced && !ok && n != 0 || ok && n != before+1 {
					t.Errorf("%s: %d after %d (%v)", e.Key, n, before, ok)
					return
				}
				if synced && e.Revision <= rev {
					t.Errorf("revision %d after %d", e.Revision, rev)
					return
				}
				last[e.Key], rev = n, max(rev, e.Revision)
				if n == changes {
					if ends++; ends == keys {
						return
					}
				}
			}
			t.Errorf("the watch ends after %v: %v", last, w.Err())
		})
		time.Sleep(10 * time.Millisecond)
	}
	writers.Wait()
	readers.Wait()
}

func testBarrier(t *testing.T, setup Setup) {
	ctx := timeout(t)
	const n = 5
	var wg sync.WaitGroup
	var mu sync.Mutex
	arrived := 0
	for i := range n {
		s := setup.open(t)
		wg.Go(func() {
			time.Sleep(time.Duration(i) * 20 * time.Millisecond)
			mu.Lock()
			arrived++
			mu.Unlock()
			if err := store.Barrier(ctx, s, "b/1/", i, n); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if arrived != n {
				t.Errorf("participant %d passed when %d of %d had arrived", i, arrived, n)
			}
		})
	}
	wg.Wait()

	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	s := setup.open(t)
	err := store.Barrier(short, s, "b/2/", 1, 3)
	var missing *store.MissingError
	if !errors.As(err, &missing) || len(missing.Missing) != 2 || missing.Missing[0] != 0 || missing.Missing[1] != 2 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a barrier without 0 and 2: %v", err)
	}
}

func testGather(t *testing.T, setup Setup) {
	ctx := timeout(t)
	const n = 4
	var wg sync.WaitGroup
	for i := range n {
		s := setup.open(t)
		wg.Go(func() {
			values, err := store.AllGather(ctx, s, "g/", i, n, fmt.Appendf(nil, "value %d", i))
			if err != nil {
				t.Error(err)
				return
			}
			for j, v := range values {
				if string(v) != fmt.Sprintf("value %d", j) {
					t.Errorf("participant %d: value %d is %q", i, j, v)
				}
			}
		})
	}
	wg.Wait()
	s := setup.open(t)
	if _, err := store.AllGather(ctx, s, "g/", 1, n, []byte("value 1")); err != nil {
		t.Errorf("a repeated call: %v", err)
	}
	_, err := store.AllGather(ctx, s, "g/", 1, n, []byte("another"))
	want(t, "another value", err, store.ErrExists)
	if values, err := store.Collect(ctx, s, "g/", n); err != nil || len(values) != n {
		t.Errorf("Collect: %q, %v", values, err)
	}
}

func testContext(t *testing.T, setup Setup) {
	s := setup.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	w, err := s.Watch(ctx, "")
	want(t, "Watch", err, nil)
	cancel()
	for range w.Events() {
	}
	want(t, "Err of the watch", w.Err(), context.Canceled)
	_, err = s.Get(ctx, "a")
	want(t, "Get", err, context.Canceled)
	_, err = s.Create(ctx, "a", nil)
	want(t, "Create", err, context.Canceled)
	_, err = s.Get(timeout(t), "a")
	want(t, "Get of the key whose Create was canceled", err, store.ErrNotFound)
}

func testClose(t *testing.T, setup Setup) {
	s := setup.open(t)
	ctx := timeout(t)
	w, err := s.Watch(ctx, "")
	want(t, "Watch", err, nil)
	want(t, "Close", s.Close(), nil)
	for range w.Events() {
	}
	want(t, "Err of the watch", w.Err(), store.ErrClosed)
	_, err = s.Get(ctx, "a")
	want(t, "Get", err, store.ErrClosed)
	_, err = s.Watch(ctx, "")
	want(t, "Watch", err, store.ErrClosed)
	want(t, "second Close", s.Close(), nil)
}
