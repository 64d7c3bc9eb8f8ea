package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Times of the watcher.
const (
	watchEvery  = 300 * time.Millisecond // looks for new records of runs
	rescanEvery = 3 * time.Second        // looks for new runs
	beatEvery   = 15 * time.Second       // a comment, which finds clients that are gone
	writeLimit  = 10 * time.Second       // for a message to a client
)

// change is a message of api/live: the rows of runs that are new or changed, and the ids of those that are gone.
type change struct {
	Runs []row    `json:"runs"`
	Gone []string `json:"gone"`
}

// broadcast passes changes to clients. A client that is slow gets them merged.
type broadcast struct {
	mu      sync.Mutex
	clients map[*client]bool
}

type client struct {
	wake chan struct{} // of length 1
	runs map[string]row
	gone map[string]bool
}

func newBroadcast() *broadcast { return &broadcast{clients: map[*client]bool{}} }

func (b *broadcast) join() *client {
	c := &client{wake: make(chan struct{}, 1), runs: map[string]row{}, gone: map[string]bool{}}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clients[c] = true
	return c
}

func (b *broadcast) leave(c *client) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.clients, c)
}

func (b *broadcast) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.clients)
}

func (b *broadcast) send(ch change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.clients {
		for _, r := range ch.Runs {
			c.runs[r.ID] = r
			delete(c.gone, r.ID)
		}
		for _, id := range ch.Gone {
			c.gone[id] = true
			delete(c.runs, id)
		}
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// take returns what the client has not been sent.
func (b *broadcast) take(c *client) (ch change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ch = change{Runs: []row{}, Gone: []string{}}
	for id, r := range c.runs {
		ch.Runs = append(ch.Runs, r)
		delete(c.runs, id)
	}
	for id := range c.gone {
		ch.Gone = append(ch.Gone, id)
		delete(c.gone, id)
	}
	return ch
}

// watch looks for changes while there are clients.
func (s *Server) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var scanned time.Time
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		if s.live.count() == 0 {
			continue
		}
		ch := change{Runs: []row{}, Gone: []string{}}
		if time.Since(scanned) > rescanEvery {
			_, ch.Gone = s.store.rescan()
			scanned = time.Now()
		}
		for _, e := range s.store.all() {
			if row, changed := e.refresh(); changed {
				ch.Runs = append(ch.Runs, row)
			}
		}
		if len(ch.Runs)+len(ch.Gone) > 0 {
			s.live.send(ch)
		}
	}
}

// serveLive sends changes as server-sent events until the client is gone or the server closes.
func (s *Server) serveLive(w http.ResponseWriter, r *http.Request) {
	c := s.live.join()
	defer s.live.leave(c)
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	send := func(format string, args ...any) bool {
		_ = out.SetWriteDeadline(time.Now().Add(writeLimit)) // without deadlines a dead client lasts longer
		_, err := fmt.Fprintf(w, format, args...)
		return err == nil && out.Flush() == nil
	}
	if !send("retry: 1000\n\n") {
		return
	}
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-r.Context().Done():
			return
		case <-beat.C:
			if !send(": alive\n\n") {
				return
			}
		case <-c.wake:
			b, err := json.Marshal(s.live.take(c))
			if err != nil || !send("event: runs\ndata: %s\n\n", b) {
				return
			}
		}
	}
}
