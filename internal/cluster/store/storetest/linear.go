package storetest

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"trireme/internal/cluster/store"
)

// call is an operation of a client on one key, as the client saw it.
type call struct {
	kind     string // get, create, update, delete
	value    []byte // written, or read by get
	revision uint64 // argument of update and delete
	result   uint64 // of create, update and get; 0 if get found no key
	outcome  outcome
	from, to time.Duration // since the start of the history
}

type outcome int

const (
	done    outcome = iota
	refused         // ErrExists, ErrConflict
	unknown         // ErrUnavailable: it happened at any later time, or never
)

func (c call) String() string {
	s := fmt.Sprintf("%v-%v %s", c.from, c.to, c.kind)
	switch c.kind {
	case "get":
		return fmt.Sprintf("%s = %q revision %d", s, c.value, c.result)
	case "create":
		s += fmt.Sprintf("(%q)", c.value)
	case "update":
		s += fmt.Sprintf("(%q, %d)", c.value, c.revision)
	case "delete":
		s += fmt.Sprintf("(%d)", c.revision)
	}
	return s + [...]string{fmt.Sprintf(" = %d", c.result), " refused", " unknown"}[c.outcome]
}

// history collects the calls of concurrent clients.
type history struct {
	start time.Time
	mu    sync.Mutex
	calls []call
}

func (h *history) add(c call, from time.Time) {
	c.from, c.to = from.Sub(h.start), time.Since(h.start)
	if c.outcome == unknown {
		if c.kind == "get" {
			return
		}
		c.to = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, c)
}

// state is the model: one key.
type state struct {
	revision uint64 // 0: the key does not exist
	last     uint64 // highest revision seen; revisions grow
	value    string
	fuzzy    bool // revision is not known: the write that set it got no answer
}

// apply returns the state after c, and whether c may have had its outcome in s.
func (s state) apply(c call) (state, bool) {
	exists := s.revision != 0 || s.fuzzy
	holds := exists && (s.fuzzy && c.revision > s.last || !s.fuzzy && s.revision == c.revision)
	var happens bool
	switch c.kind {
	case "get":
		if !exists || c.result == 0 {
			return s, !exists && c.result == 0
		}
		if s.value != string(c.value) || s.fuzzy && c.result <= s.last || !s.fuzzy && s.revision != c.result {
			return s, false
		}
		return state{revision: c.result, last: c.result, value: s.value}, true
	case "create":
		happens = !exists
	case "update", "delete":
		happens = holds
		if s.fuzzy && c.outcome == refused {
			return s, true // the revision may be another one
		}
	}
	switch {
	case c.outcome == refused:
		return s, !happens
	case !happens:
		return s, false
	case c.kind == "delete":
		return state{last: max(s.last, c.revision)}, true
	case c.outcome == unknown:
		return state{last: max(s.last, c.revision), value: string(c.value), fuzzy: true}, true
	}
	return state{revision: c.result, last: c.result, value: string(c.value)}, c.result > max(s.last, c.revision)
}

// linearizable reports whether the calls, on one key that did not exist, have an order that agrees with the
// model and with time: a call that ended before another one began comes before it. It is the search of Wing
// and Gong, with the visited pairs of done calls and state that Lowe adds.
func linearizable(calls []call) bool {
	calls = slices.Clone(calls)
	slices.SortFunc(calls, func(a, b call) int { return int(a.from - b.from) })
	type visit struct {
		done string
		s    state
	}
	seen := map[visit]bool{}
	finished := make([]byte, len(calls))
	var search func(s state) bool
	search = func(s state) bool {
		first := time.Duration(math.MaxInt64) // the earliest end of a call that is not done
		left := false
		for i, c := range calls {
			if finished[i] == 0 {
				first = min(first, c.to)
				left = left || c.outcome != unknown
			}
		}
		if !left {
			return true // calls without an answer may never happen
		}
		v := visit{string(finished), s}
		if seen[v] {
			return false
		}
		seen[v] = true
		for i, c := range calls {
			if finished[i] != 0 {
				continue
			}
			if c.from > first {
				break
			}
			if next, ok := s.apply(c); ok {
				finished[i] = 1
				if search(next) {
					return true
				}
				finished[i] = 0
			}
		}
		return false
	}
	return search(state{})
}

// checkEvents returns an error unless the events of a watch of the key, which started before all calls, are
// possible for them: each acknowledged write once, in the order of revisions, and nothing that no call wrote.
func checkEvents(calls []call, events []store.Event) error {
	var last uint64
	puts := map[uint64][]byte{}
	deletes := 0
	for _, e := range events {
		if e.Kind == store.Synced {
			continue
		}
		if e.Revision <= last {
			return fmt.Errorf("%v of revision %d after revision %d", e.Kind, e.Revision, last)
		}
		last = e.Revision
		if e.Kind == store.Deleted {
			deletes++
			continue
		}
		puts[e.Revision] = e.Value
	}
	unsure, deleted, unsureDeletes := map[string]bool{}, 0, 0
	for _, c := range calls {
		switch {
		case c.kind == "get" || c.outcome == refused:
		case c.outcome == unknown && c.kind == "delete":
			unsureDeletes++
		case c.outcome == unknown:
			unsure[string(c.value)] = true
		case c.kind == "delete":
			deleted++
		default:
			value, ok := puts[c.result]
			if !ok || !bytes.Equal(value, c.value) {
				return fmt.Errorf("no event of %v (%q)", c, value)
			}
			delete(puts, c.result)
		}
	}
	for rev, value := range puts {
		if !unsure[string(value)] {
			return fmt.Errorf("event of revision %d has %q, which no call wrote or one wrote twice", rev, value)
		}
		delete(unsure, string(value))
	}
	if deletes < deleted || deletes > deleted+unsureDeletes {
		return fmt.Errorf("%d events of deletions, want %d to %d", deletes, deleted, deleted+unsureDeletes)
	}
	return nil
}
