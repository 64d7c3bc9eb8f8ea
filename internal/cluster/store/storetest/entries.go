package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"trireme/internal/cluster/store"
)

func want(t *testing.T, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("%s: %v, want %v", what, err, target)
	}
}

func testEntries(t *testing.T, setup Setup) {
	ctx, a, b := timeout(t), setup.open(t), setup.open(t)
	_, err := a.Get(ctx, "job/x")
	want(t, "Get of no key", err, store.ErrNotFound)
	_, err = a.Update(ctx, "job/x", nil, 1)
	want(t, "Update of no key", err, store.ErrConflict)
	want(t, "Delete of no key", a.Delete(ctx, "job/x", 1), store.ErrConflict)

	r1, err := a.Create(ctx, "job/x", []byte("one"))
	want(t, "Create", err, nil)
	_, err = b.Create(ctx, "job/x", []byte("two"))
	want(t, "second Create", err, store.ErrExists)
	e, err := b.Get(ctx, "job/x")
	if err != nil || e.Key != "job/x" || string(e.Value) != "one" || e.Revision != r1 {
		t.Fatalf("Get: %v, %v; want one at %d", e, err, r1)
	}
	r2, err := b.Update(ctx, "job/x", []byte("two"), r1)
	want(t, "Update", err, nil)
	if r2 <= r1 {
		t.Fatalf("revision %d after %d", r2, r1)
	}
	_, err = a.Update(ctx, "job/x", []byte("three"), r1)
	want(t, "Update with an old revision", err, store.ErrConflict)
	want(t, "Delete with an old revision", a.Delete(ctx, "job/x", r1), store.ErrConflict)
	want(t, "Delete", a.Delete(ctx, "job/x", r2), nil)
	_, err = b.Get(ctx, "job/x")
	want(t, "Get after Delete", err, store.ErrNotFound)
	_, err = a.Update(ctx, "job/x", nil, r2)
	want(t, "Update after Delete", err, store.ErrConflict)
	r3, err := a.Create(ctx, "job/x", nil)
	want(t, "Create after Delete", err, nil)
	if r3 <= r2 {
		t.Fatalf("revision %d after %d", r3, r2)
	}
	if e, err = b.Get(ctx, "job/x"); err != nil || len(e.Value) != 0 || e.Revision != r3 {
		t.Fatalf("Get: %v, %v; want an empty value at %d", e, err, r3)
	}
	_, err = store.Set(ctx, a, "job/x", []byte("four"))
	want(t, "Set", err, nil)
	_, err = store.Set(ctx, a, "job/y", []byte("five"))
	want(t, "Set of a new key", err, nil)
	all, err := store.List(ctx, b, "job/")
	if err != nil || len(all) != 2 || string(all[0].Value) != "four" || string(all[1].Value) != "five" {
		t.Fatalf("List: %v, %v", all, err)
	}
}

// testKeys writes keys with all bytes that are allowed, and values of all sizes.
func testKeys(t *testing.T, setup Setup) {
	ctx, s := timeout(t), setup.open(t)
	var all strings.Builder
	for b := byte('!'); b <= '~'; b++ {
		all.WriteByte(b)
	}
	keys := []string{all.String() + "/z", "a", "a/b", "a.b", "a/b.c", "a/b/c", "a=2Eb", "*", ">", "a/*", "a/>", "A/B", "$JS/x", "_/~", strings.Repeat("k", store.MaxKey)}
	for i, k := range keys {
		if _, err := s.Create(ctx, k, []byte(strconv.Itoa(i))); err != nil {
			t.Fatalf("Create(%q): %v", k, err)
		}
	}
	for i, k := range keys {
		if e, err := s.Get(ctx, k); err != nil || e.Key != k || string(e.Value) != strconv.Itoa(i) {
			t.Errorf("Get(%q): %v, %v", k, e, err)
		}
	}
	found, err := store.List(ctx, s, "")
	if err != nil || len(found) != len(keys) {
		t.Errorf("List of all: %d entries, %v; want %d", len(found), err, len(keys))
	}
	found, err = store.List(ctx, s, "a/")
	if err != nil || len(found) != 5 {
		t.Errorf("List of a/: %v, %v; want 5 entries", found, err)
	}
	for _, k := range []string{"", "/a", "a/", "a//b", "a b", "a\n", "ä", strings.Repeat("k", store.MaxKey+1)} {
		if _, err := s.Create(ctx, k, nil); err == nil {
			t.Errorf("Create(%q) succeeds", k)
		}
		if _, err := s.Get(ctx, k); err == nil || errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get(%q): %v", k, err)
		}
	}
	if _, err := s.Watch(ctx, "a"); err == nil {
		t.Error("a watch of a prefix without a slash succeeds")
	}
	big := bytes.Repeat([]byte{0, 255, 10}, store.MaxValue/3)
	_, err = s.Create(ctx, "big", big)
	want(t, "Create of a big value", err, nil)
	if e, err := s.Get(ctx, "big"); err != nil || !bytes.Equal(e.Value, big) {
		t.Errorf("Get of a big value: %d bytes, %v", len(e.Value), err)
	}
	if _, err = s.Create(ctx, "bigger", make([]byte, store.MaxValue+1)); err == nil {
		t.Error("Create of a value above the limit succeeds")
	}
}

// Contend runs clients that read and change one key at random for n calls each, and checks that the calls
// are linearizable and that a watch saw each change once, in order. Errors other than the store's own
// refusals count as unknown outcomes. A client waits for pace after each call.
func Contend(t *testing.T, key string, n int, pace time.Duration, watcher store.Store, clients ...store.Store) {
	t.Helper()
	watchCtx, stop := context.WithCancel(t.Context())
	w, err := watcher.Watch(watchCtx, key+"/")
	if err != nil {
		t.Fatal(err)
	}
	if e := next(t, w); e.Kind != store.Synced {
		t.Fatalf("first event of no keys: %v", e)
	}
	var events []store.Event
	end := make(chan struct{})
	go func() {
		defer close(end)
		for e := range w.Events() {
			if e.Key == key+"/end" {
				stop()
				return
			}
			events = append(events, e)
		}
	}()
	h := &history{start: time.Now()}
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() { contend(h, c, key+"/x", i, n, pace) })
	}
	wg.Wait()
	ctx := timeout(t)
	for {
		if _, err := store.Set(ctx, clients[0], key+"/end", nil); err == nil {
			break
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	<-end
	if !linearizable(h.calls) {
		t.Errorf("not linearizable:\n%v", h)
	}
	if err := checkEvents(h.calls, events); err != nil {
		t.Errorf("watch: %v\n%v", err, h)
	}
	unsure := 0
	for _, c := range h.calls {
		if c.outcome == unknown {
			unsure++
		}
	}
	t.Logf("%d calls of %d clients, %d without an answer, %d events", len(h.calls), len(clients), unsure, len(events))
	if len(h.calls) < len(clients)*n/4 {
		t.Errorf("%d calls of %d were answered: the history is too thin", len(h.calls), len(clients)*n)
	}
}

func (h *history) String() string {
	var b strings.Builder
	for _, c := range h.calls {
		fmt.Fprintln(&b, c)
	}
	return b.String()
}

func contend(h *history, s store.Store, key string, client, n int, pace time.Duration) {
	rng := rand.New(rand.NewPCG(uint64(client), 7))
	var seen uint64
	for i := range n {
		c := call{value: fmt.Appendf(nil, "%d.%d", client, i), revision: seen}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		from := time.Now()
		var err error
		switch p := rng.IntN(10); {
		case p < 3 || seen == 0 && p >= 5:
			c.kind, c.value = "get", nil
			var e store.Entry
			if e, err = s.Get(ctx, key); errors.Is(err, store.ErrNotFound) {
				err = nil
			}
			c.value, c.result, seen = e.Value, e.Revision, e.Revision
		case p < 5:
			c.kind = "create"
			c.result, err = s.Create(ctx, key, c.value)
		case p < 9:
			c.kind = "update"
			c.result, err = s.Update(ctx, key, c.value, seen)
		default:
			c.kind = "delete"
			err = s.Delete(ctx, key, seen)
		}
		cancel()
		switch {
		case err == nil && c.result != 0:
			seen = c.result
		case err == nil:
			seen = 0
		case errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrExists):
			c.outcome = refused
		default:
			c.outcome = unknown
		}
		h.add(c, from)
		time.Sleep(pace)
	}
}

func testLinearizable(t *testing.T, setup Setup) {
	clients := make([]store.Store, 4)
	for i := range clients {
		clients[i] = setup.open(t)
	}
	for round := range 3 {
		Contend(t, "round"+strconv.Itoa(round), 60, 0, setup.open(t), clients...)
	}
}

// testCounter increments a number from several clients: no increment is lost or doubled.
func testCounter(t *testing.T, setup Setup) {
	ctx := timeout(t)
	const clients, each = 4, 25
	first := setup.open(t)
	if _, err := first.Create(ctx, "n", []byte("0")); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range clients {
		s := setup.open(t)
		wg.Go(func() {
			for range each {
				for {
					e, err := s.Get(ctx, "n")
					if err != nil {
						t.Error(err)
						return
					}
					n, _ := strconv.Atoi(string(e.Value))
					_, err = s.Update(ctx, "n", []byte(strconv.Itoa(n+1)), e.Revision)
					if err == nil {
						break
					}
					if !errors.Is(err, store.ErrConflict) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if e, err := first.Get(ctx, "n"); err != nil || string(e.Value) != strconv.Itoa(clients*each) {
		t.Errorf("the counter is %s, %v; want %d", e.Value, err, clients*each)
	}
}
