package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"trireme/collective"
	"trireme/flight"
	"trireme/internal/netif"
	"trireme/rendezvous"
	"trireme/trace"
)

// waits are time limits between ranks.
type waits struct {
	timeout time.Duration // of joining and of a collective
	silence time.Duration // without a heartbeat, after which a rank is lost; 0 is one second
	grace   time.Duration // for the other ranks of a process to end after one has failed
}

// patience is the number of time-outs after which a collective ends by itself. The store ends it sooner, unless the
// late rank makes progress.
const patience = 10

// collective returns the configuration of the collectives of the ranks of ms, in order.
func (w waits) collective(ms ...*connection) collective.Config {
	of := func(rank int) *connection {
		for _, m := range ms {
			if m.env.Rank == rank {
				return m
			}
		}
		return &connection{}
	}
	return collective.Config{
		Timeout:  patience * w.timeout,
		Recorder: func(rank int) *flight.Recorder { return of(rank).recorder },
		Trace:    func(rank int) *trace.Recorder { return of(rank).trace },
	}
}

// connection is a rank's connection to the store of its job. It starts before the rank's own
// preparation, so heartbeats run from the start and preparation has no time limit.
type connection struct {
	env    rendezvous.Env
	waits  waits
	ctx    context.Context // canceled with the caller's, or when a rank is lost; see its cause
	cancel context.CancelCauseFunc
	done   sync.WaitGroup
	ready  chan struct{} // closed once store or err is set

	store *rendezvous.Store
	err   error

	recorder *flight.Recorder
	trace    *trace.Recorder
	states   receivedStates

	mu  sync.Mutex
	out io.Writer
}

// connectRank starts connecting a rank to the others, and writes a line to out while it waits. One rank
// alone has no store.
func connectRank(ctx context.Context, env rendezvous.Env, w waits, out io.Writer) *connection {
	m := &connection{env: env, waits: w, ready: make(chan struct{}), out: out}
	m.ctx, m.cancel = context.WithCancelCause(ctx)
	m.recorder, m.trace = newRecorder(env), trace.New(0)
	if env.WorldSize == 1 {
		close(m.ready)
		return m
	}
	m.done.Go(func() {
		m.store, m.err = rendezvous.Connect(m.ctx, env, rendezvous.Config{Timeout: w.timeout, Heartbeat: w.silence, Recorder: m.recorder, Received: m.states.write, Note: m.note})
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

// connect starts the job's connections. The context ends when a rank is lost.
func (j *job) connect(ctx context.Context, env rendezvous.Env, out io.Writer) context.Context {
	t := j.cfg.Parallel
	j.process = connect(ctx, env, waits{t.CollectiveTimeout(), t.HeartbeatTimeout(), t.Grace()}, out)
	j.process.network = netif.Chosen(t.Interface, os.LookupEnv)
	j.process.security, j.process.connections = t.TransportSecurity, t.Connections
	return j.process.ctx
}

// setNotes redirects notes to w.
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

// join waits for all ranks: for connected ranks as long as they live, for others up to the time-out,
// which starts now. The store is nil for one rank.
func (m *connection) join() (*rendezvous.Store, error) {
	if err := m.connected(); err != nil || m.store == nil {
		return nil, err
	}
	defer m.recorder.Leave(m.recorder.Enter(flight.Waiting, "the other ranks"))
	return m.store, m.store.Rendezvous(m.ctx)
}

// awaitPrepared waits until every rank has prepared the files of its machine.
func (m *connection) awaitPrepared() error {
	if err := m.connected(); err != nil || m.store == nil {
		return err
	}
	defer m.recorder.Leave(m.recorder.Enter(flight.Waiting, "prepared"))
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

// cause returns the loss of a rank if err is only the cancellation that followed.
func (m *connection) cause(err error) error {
	var lost *rendezvous.Failure
	if errors.Is(err, context.Canceled) && errors.As(context.Cause(m.ctx), &lost) {
		return lost
	}
	return err
}

// close closes a connection that no world uses. A non-nil cause is sent to the other ranks.
func (m *connection) close(cause error) error {
	m.cancel(nil)
	m.done.Wait()
	if m.store == nil {
		return nil
	}
	if cause != nil {
		m.store.Abort(cause, codeOf(cause))
	}
	return m.store.Close()
}
