package rendezvous

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestKeyValue(t *testing.T) {
	stores := mustJoin(t, 2)
	defer closeAll(stores)
	a, b := stores[0].KeyValue("pjrt/0/"), stores[1].KeyValue("pjrt/0/")
	if v, found, err := b.TryGet("k"); v != nil || found || err != nil {
		t.Fatalf("%q, %v, %v", v, found, err)
	}
	value := bytes.Repeat([]byte{0, 1, 0xff}, 2<<20)
	if err := a.Put("k", value); err != nil {
		t.Fatal(err)
	}
	if v, found, err := b.TryGet("k"); !bytes.Equal(v, value) || !found || err != nil {
		t.Fatalf("%d bytes, %v, %v", len(v), found, err)
	}
	if v, err := b.Get("k", time.Minute); !bytes.Equal(v, value) || err != nil {
		t.Fatalf("%d bytes, %v", len(v), err)
	}
	if err := b.Put("empty", nil); err != nil {
		t.Fatal(err)
	}
	if v, found, err := a.TryGet("empty"); len(v) != 0 || !found || err != nil {
		t.Fatalf("%q, %v, %v", v, found, err)
	}
	if _, found, err := stores[0].KeyValue("pjrt/1/").TryGet("k"); found || err != nil {
		t.Errorf("another prefix: %v, %v", found, err)
	}
	if err := a.Put("k", make([]byte, maxValue+1)); err == nil || !strings.Contains(err.Error(), "16777216") {
		t.Error(err)
	}
}

// A Get that waits for longer than the heartbeat time-out, beside the largest values, makes no rank late.
func TestKeyValueBlocked(t *testing.T) {
	stores, errs := joinAll(t.Context(), world(t, 3), Config{Timeout: 20 * time.Second, Heartbeat: 300 * time.Millisecond})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	defer closeAll(stores)
	got := make(chan error, 8)
	for i := range cap(got) {
		go func() {
			v, err := stores[i%3].KeyValue("p/").Get("late", time.Minute)
			if err == nil && string(v) != "now" {
				err = errors.New(string(v))
			}
			got <- err
		}()
	}
	for began := time.Now(); time.Since(began) < time.Second; {
		if err := stores[2].KeyValue("p/").Put("big", make([]byte, maxValue)); err != nil {
			t.Fatal(err)
		}
		if _, found, err := stores[1].KeyValue("p/").TryGet("late"); found || err != nil {
			t.Fatal(found, err)
		}
	}
	if err := stores[1].KeyValue("p/").Put("late", []byte("now")); err != nil {
		t.Fatal(err)
	}
	for range cap(got) {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
}

// A Get ends with an ErrTimeout after its own time, and at once when a rank stops or the Store closes.
func TestKeyValueEnds(t *testing.T) {
	stores := mustJoin(t, 2)
	defer closeAll(stores)
	began := time.Now()
	if _, err := stores[1].KeyValue("p/").Get("never", 50*time.Millisecond); !errors.Is(err, ErrTimeout) || time.Since(began) > 10*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	ended := make(chan error, 2)
	for _, s := range stores {
		go func() {
			_, err := s.KeyValue("p/").Get("never", time.Hour)
			ended <- err
		}()
	}
	time.Sleep(20 * time.Millisecond)
	stores[1].Abort(errors.New("no device"), 1)
	for range stores {
		if err := <-ended; !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "rank 1 stopped: no device") {
			t.Error(err)
		}
	}
}
