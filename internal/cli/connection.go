package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"trireme/rendezvous"
)

// waits are how long ranks wait for one another.
type waits struct {
	timeout time.Duration // for a rank that runs, in joining and in a collective
	silence time.Duration // for a sign of life; 0 is one second
}

// meeting connects a rank with its world. It begins before the rank prepares alone, so that heartbeats
// run from the first moment and no time-out limits preparation.
type connection struct {
	env    rendezvous.Env
	waits  waits
	ctx    context.Context // ends when the caller's does, or when a rank is lost; its cause says which
	cancel context.CancelCauseFunc
	done   sync.WaitGroup
	ready  chan struct{} // closed when store or err is there

	store *rendezvous.Store
	err   error
	taken bool // by a world, which closes the store

	mu  sync.Mutex
	out io.Writer
}

// meet begins to connect this rank with the others. out gets a line when it waits for one. A world of
// one meets nobody.
func connect(ctx context.Context, env rendezvous.Env, w waits, out io.Writer) *connection {
	m := &connection{env: env, waits: w, ready: make(chan struct{}), out: out}
	m.ctx, m.cancel = context.WithCancelCause(ctx)
	if env.WorldSize == 1 {
		close(m.ready)
		return m
	}
	m.done.Go(func() {
		m.store, m.err = rendezvous.Connect(m.ctx, env, rendezvous.Config{Timeout: w.timeout, Heartbeat: w.silence, Note: m.note})
		close(m.ready)
		if m.err != nil {
			m.cancel(m.err)
			return
		}
		select {
		case <-m.store.Done():
			if err := m.store.Err(); err != nil {
				m.cancel(err)
			}
		case <-m.ctx.Done():
		}
	})
	return m
}

// meet begins the job's meeting. Everything that a rank does from now on ends with the context.
func (j *job) connect(ctx context.Context, env rendezvous.Env, out io.Writer) context.Context {
	j.conn = connect(ctx, env, waits{j.cfg.Parallel.Wait(), j.cfg.Parallel.Silence()}, out)
	return j.conn.ctx
}

// show sends notes to w from now on.
func (m *connection) setNotes(w io.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.out = w
}

func (m *connection) note(line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprintln(m.out, line)
}

// join waits for all ranks: for a rank that has not connected, until the time-out from now on. The
// store is nil in a world of one.
func (m *connection) join() (*rendezvous.Store, error) {
	if err := m.connected(); err != nil || m.store == nil {
		return nil, err
	}
	return m.store, m.store.Meet(m.ctx)
}

// prepared waits until every rank has prepared what others on its machine use.
func (m *connection) awaitPrepared() error {
	if err := m.connected(); err != nil || m.store == nil {
		return err
	}
	_, err := m.store.Await(m.ctx, "prepared", nil)
	return err
}

func (m *connection) connected() error {
	if m.env.WorldSize > 1 {
		late := time.AfterFunc(m.waits.timeout, func() {
			select {
			case <-m.ready:
			default:
				m.cancel(context.DeadlineExceeded)
			}
		})
		defer late.Stop()
	}
	<-m.ready
	return m.err
}

// cause is the rank that was lost where err is only that a context ended for it.
func (m *connection) cause(err error) error {
	var lost *rendezvous.Failure
	if errors.Is(err, context.Canceled) && errors.As(context.Cause(m.ctx), &lost) {
		return lost
	}
	return err
}

// leave ends a meeting that no world has come of. If that is because of err, the other ranks are told.
func (m *connection) close(err error) error {
	err = m.cause(err)
	m.cancel(nil)
	m.done.Wait()
	if m.store != nil {
		if err != nil {
			m.store.Abort(err, codeOf(err))
		}
		err = errors.Join(err, m.store.Close())
	}
	return err
}
