package collective

import (
	"fmt"
	"sync"
	"time"
)

// Entry is one operation in a flight recorder. A zero time has not come yet.
type Entry struct {
	Header
	Issued, Started, Finished time.Time
	Failed                    bool
}

// Recorder keeps a group's last operations. It is safe for concurrent use.
type Recorder struct {
	mu   sync.Mutex
	ring [1024]Entry
	n    uint64
}

func (r *Recorder) issue(h *Header, now time.Time) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := r.n
	r.n++
	r.ring[id%uint64(len(r.ring))] = Entry{Header: *h, Issued: now}
	return id
}

// update changes an entry, unless newer ones have taken its place.
func (r *Recorder) update(id uint64, started, finished time.Time, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n-id > uint64(len(r.ring)) {
		return
	}
	e := &r.ring[id%uint64(len(r.ring))]
	if !started.IsZero() {
		e.Started = started
	}
	e.Finished, e.Failed = finished, failed
}

// Snapshot is what the recorder holds, oldest first.
func (r *Recorder) Snapshot() []Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := uint64(len(r.ring))
	var out []Entry
	for id := r.n - min(r.n, size); id < r.n; id++ {
		out = append(out, r.ring[id%size])
	}
	return out
}

// State is where an operation stands.
type State uint8

// The states.
const (
	Issued State = iota
	Started
	Finished
	Failed
)

var stateNames = [...]string{"issued", "under way for", "finished", "failed"}

// Note is the last thing that a rank did, as other ranks can see it. It holds no pointers.
type Note struct {
	Header
	Unix     int64 // nanoseconds
	State    State
	GroupLen uint8
	Group    [32]byte
}

// String is for people: all_gather #12 of 4096 float32 (layer 3) of group shard, finished 3.1s ago.
func (n *Note) String() string {
	if n.Unix == 0 {
		return "nothing yet"
	}
	age := time.Since(time.Unix(0, n.Unix)).Round(time.Millisecond)
	s := fmt.Sprintf("%v of group %s, %s %v", &n.Header, n.Group[:min(int(n.GroupLen), len(n.Group))], stateNames[min(n.State, Failed)], age)
	if n.State != Started {
		s += " ago"
	}
	return s
}
