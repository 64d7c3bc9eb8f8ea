package natsstore

import (
	"context"
	"sync"
	"time"
)

// reaper deletes keys whose leases were not renewed.
type reaper struct {
	ctx    context.Context
	cfg    Config
	server *Server
	wg     sync.WaitGroup

	mu  sync.Mutex
	due map[string]deadline // by subject
}

type deadline struct {
	at       time.Time
	sequence uint64 // of the last message, which has the lease
}

const (
	tick = 20 * time.Millisecond
	// pause is the time between two ticks after which this process was stopped, or starved: owners may have
	// renewed leases that it has not read yet, so leases get that time on top.
	pause = 200 * time.Millisecond
)

func startReaper(ctx context.Context, cfg Config, s *Server) *reaper {
	r := &reaper{ctx: ctx, cfg: cfg, server: s, due: map[string]deadline{}}
	r.wg.Go(r.run)
	return r
}

func (r *reaper) wait() { r.wg.Wait() }

func (r *reaper) run() {
	c, err := connect(r.ctx, r.cfg, r.server)
	if err != nil {
		return // the server stops
	}
	defer c.Close()
	r.wg.Go(func() { r.expire(c) })
	for r.ctx.Err() == nil {
		f := &feed{client: c, filter: root + ">"}
		f.run(r.ctx, r.note) // ends when it is behind: the next one begins with the last messages
		f.unsubscribe()
	}
}

// note reads a message.
func (r *reaper) note(m *message) error {
	if m == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.due, m.subject)
	if m.ttl > 0 && m.kind == leased {
		r.due[m.subject] = deadline{time.Now().Add(m.ttl), m.sequence}
	}
	return nil
}

// expire deletes keys at their deadlines.
func (r *reaper) expire(c *client) {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for before := time.Now(); ; {
		select {
		case <-r.ctx.Done():
			return
		case <-ticks.C:
		}
		now := time.Now()
		for subject, d := range r.ended(now, now.Sub(before)) {
			r.delete(c, subject, d)
		}
		before = time.Now()
	}
}

// ended returns the deadlines that have passed. slept is the time since the last call.
func (r *reaper) ended(now time.Time, slept time.Duration) map[string]deadline {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]deadline{}
	for subject, d := range r.due {
		if slept > pause {
			d.at = d.at.Add(slept)
			r.due[subject] = d
		}
		if now.After(d.at) {
			out[subject] = d
		}
	}
	return out
}

// delete ends one lease, unless it was renewed. The message that follows in either case replaces the deadline;
// without one the next tick tries again.
func (r *reaper) delete(c *client, subject string, d deadline) {
	key, err := keyOf(subject)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, try)
	defer cancel()
	c.js.PublishMsg(ctx, change(key, d.sequence, deleted, nil))
}
