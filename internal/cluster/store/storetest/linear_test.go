package storetest

import (
	"testing"
	"time"

	"trireme/internal/cluster/store"
)

func at(c call, from, to time.Duration) call {
	c.from, c.to = from, to
	return c
}

// TestLinearizable checks the judge: correct histories pass, wrong ones do not.
func TestLinearizable(t *testing.T) {
	create := call{kind: "create", value: []byte("a"), result: 1}
	update := call{kind: "update", value: []byte("b"), revision: 1, result: 2}
	get := func(value string, revision uint64) call {
		return call{kind: "get", value: []byte(value), result: revision}
	}
	other := update
	other.value, other.result = []byte("c"), 3
	refusedUpdate := call{kind: "update", value: []byte("c"), revision: 1, outcome: refused}
	for name, c := range map[string]struct {
		calls []call
		ok    bool
	}{
		"sequential":                     {[]call{at(create, 0, 1), at(update, 2, 3), at(get("b", 2), 4, 5)}, true},
		"stale read":                     {[]call{at(create, 0, 1), at(update, 2, 3), at(get("a", 1), 4, 5)}, false},
		"concurrent read":                {[]call{at(create, 0, 1), at(update, 2, 5), at(get("a", 1), 3, 4)}, true},
		"doubled update":                 {[]call{at(create, 0, 1), at(update, 2, 5), at(other, 2, 5)}, false},
		"lost update":                    {[]call{at(create, 0, 1), at(update, 2, 3), at(get("", 0), 4, 5)}, false},
		"refusal before its cause":       {[]call{at(create, 0, 1), at(update, 2, 9), at(refusedUpdate, 3, 4), at(get("a", 1), 5, 6)}, false},
		"right refusal":                  {[]call{at(create, 0, 1), at(update, 2, 5), at(refusedUpdate, 2, 5)}, true},
		"wrong refusal":                  {[]call{at(create, 0, 1), at(refusedUpdate, 2, 3), at(update, 4, 5)}, false},
		"read of a write to come":        {[]call{at(create, 0, 1), at(get("b", 2), 2, 3), at(update, 4, 5)}, false},
		"unknown write, seen later":      {[]call{at(create, 0, 1), at(call{kind: "update", value: []byte("d"), revision: 1, outcome: unknown}, 2, 1<<62), at(get("d", 7), 8, 9)}, true},
		"unknown write, never seen":      {[]call{at(create, 0, 1), at(call{kind: "update", value: []byte("d"), revision: 1, outcome: unknown}, 2, 1<<62), at(get("a", 1), 8, 9)}, true},
		"unknown write, seen and undone": {[]call{at(create, 0, 1), at(call{kind: "update", value: []byte("d"), revision: 1, outcome: unknown}, 2, 1<<62), at(get("d", 7), 8, 9), at(get("a", 1), 10, 11)}, false},
	} {
		if got := linearizable(c.calls); got != c.ok {
			t.Errorf("%s: linearizable is %v", name, got)
		}
	}
	calls := []call{create, update}
	put := func(rev uint64, value string) store.Event {
		return store.Event{Kind: store.Put, Entry: store.Entry{Value: []byte(value), Revision: rev}}
	}
	for name, c := range map[string]struct {
		events []store.Event
		ok     bool
	}{
		"all":     {[]store.Event{put(1, "a"), put(2, "b")}, true},
		"gap":     {[]store.Event{put(2, "b")}, false},
		"order":   {[]store.Event{put(2, "b"), put(1, "a")}, false},
		"doubled": {[]store.Event{put(1, "a"), put(2, "b"), put(2, "b")}, false},
		"foreign": {[]store.Event{put(1, "a"), put(2, "b"), put(3, "c")}, false},
		"value":   {[]store.Event{put(1, "a"), put(2, "x")}, false},
	} {
		if err := checkEvents(calls, c.events); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
