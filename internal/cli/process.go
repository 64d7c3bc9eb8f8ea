package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"trireme/collective"
	"trireme/device"
	"trireme/internal/netif"
	"trireme/launch"
	"trireme/parallel"
	"trireme/rendezvous"
	"trireme/train"
)

// process is this process's part of a job: one rank, or several for devices that share a client. Each rank
// has a goroutine, a connection and a world.
type process struct {
	ctx   context.Context // of the first rank's connection
	env   rendezvous.Env
	stop  *launch.Shutdown
	waits waits
	// network is the interface that the user named for data between hosts.
	network netif.Choice
	// security is the protection of data between hosts.
	security    parallel.Security
	connections int           // of parallel
	conns       []*connection // of each rank
	taken       bool          // by run, which closes the connections
	memory      *os.File      // of the launcher, for checkpoints; nil: none
}

// connect starts connecting the ranks of this process to the others. The first writes a line to out while
// it waits.
func connect(ctx context.Context, env rendezvous.Env, w waits, out io.Writer) *process {
	p := &process{env: env, stop: stopOf(ctx), waits: w, network: netif.Chosen("", os.LookupEnv), security: parallel.Encrypt}
	warnInsecure(env, out)
	for _, one := range env.Split() {
		p.conns = append(p.conns, connectRank(ctx, one, w, out))
		out = io.Discard // the first waits for the same ranks
	}
	p.ctx = p.conns[0].ctx
	return p
}

// device returns this process for the device of a rank that has joined.
func (w *world) device() device.Process {
	p := w.process
	d := device.Process{Rank: w.index, Ranks: len(p.conns), Local: p.env.LocalRank}
	if d.Index, d.Count = p.env.Processes(); d.Count > 1 {
		<-p.conns[0].ready
		d.Store = p.conns[0].store.KeyValue("pjrt/")
	}
	return d
}

// awaitPrepared waits until every rank has prepared the files of its machine.
func (p *process) awaitPrepared() error {
	errs := make([]error, len(p.conns))
	var all sync.WaitGroup
	for i, m := range p.conns {
		all.Go(func() { errs[i] = m.awaitPrepared() })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err // the others have the same
		}
	}
	return nil
}

// close closes the connections before run. A non-nil err is sent to the other ranks.
func (p *process) close(err error) error {
	err = p.conns[0].cause(err)
	var closed error
	for i := len(p.conns) - 1; i >= 0; i-- { // rank 0 waits for the others to leave
		closed = errors.Join(closed, p.conns[i].close(err))
	}
	return exitOf(p.stop, p.env, errors.Join(err, closed))
}

// allLocal reports whether all ranks of the job are in this process.
func allLocal(env rendezvous.Env) bool { return env.WorldSize == max(1, env.Ranks) }

// result is the end of a rank of this process.
type result struct {
	index int
	err   error
}

// run calls f for each rank of this process, concurrently, with its world. An error of f aborts all ranks of
// the job, unless they all fail with it; a panic is an error with exit code 134. It returns the error of the
// rank that failed first. The other ranks then have waits.grace to end.
func (p *process) run(transport string, f func(w *world) error) error {
	release, err := launch.ExitWithParent(os.LookupEnv, nil)
	if err != nil {
		return p.close(err)
	}
	defer release()
	p.taken = true
	transport = transportOf(transport, p.env)
	worlds := make([]collective.World, len(p.conns))
	if transport == "local" {
		if worlds, err = collective.NewLocal(len(p.conns), p.waits.collective(p.conns...)); err != nil {
			return p.close(err)
		}
	}
	results := make(chan result, len(p.conns))
	for i, m := range p.conns {
		go func() {
			w := &world{World: worlds[i], process: p, index: i, conn: m, env: m.env, transport: transport}
			err := exitOf(p.stop, m.env, w.run(f))
			m.recorder.Close(codeOf(err))
			results <- result{i, err}
		}()
	}
	return p.await(results)
}

// await returns the error of the rank that failed first, once all ranks have ended or the time of the others
// is over.
func (p *process) await(results <-chan result) error {
	running := map[int]bool{}
	for i := range p.conns {
		running[i] = true
	}
	var ended []result
	var late <-chan time.Time
	for len(running) > 0 {
		select {
		case r := <-results:
			delete(running, r.index)
			ended = append(ended, r)
			if late == nil && failed(r.err) {
				late = time.After(p.waits.grace)
			}
		case <-late:
			for i, m := range p.conns {
				if running[i] {
					p.conns[0].note(fmt.Sprintf("rank %d did not end within %v", m.env.Rank, p.waits.grace))
				}
			}
			running = nil
		}
	}
	first := firstError(ended)
	if len(p.conns) == 1 || !failed(first.err) || codeOf(first.err) == CodePeerLost {
		return first.err
	}
	rank := p.conns[first.index].env.Rank
	err := first.err
	if problem := (*Problem)(nil); first.index > 0 && !errors.As(err, &problem) { // its text alone is printed
		err = fmt.Errorf("rank %d: %w", rank, err)
	}
	if reported := p.stop.ReportFailed(rank); reported != nil {
		err = errors.Join(err, reported)
	}
	return err
}

// failed reports whether a rank ended with an error that ends the others.
func failed(err error) bool { return err != nil && codeOf(err) != CodeStopped }

// firstError returns the first result of a rank that failed by itself, else of one that another rank
// stopped, else of one that stopped early. The first rank is preferred among equals: its output is shown.
func firstError(ended []result) (first result) {
	weight := func(err error) int {
		switch code := codeOf(err); {
		case err == nil:
			return 0
		case code == CodeStopped:
			return 1
		case code == CodePeerLost:
			return 2
		}
		return 3
	}
	for _, r := range ended {
		a, b := weight(r.err), weight(first.err)
		if a > b || a == b && r.index == 0 && codeOf(r.err) == codeOf(first.err) && codeOf(r.err) < CodeCrashed {
			first = r
		}
	}
	return first
}

// run opens the world, calls f and closes the world.
func (w *world) run(f func(w *world) error) (err error) {
	defer func() {
		err = w.conn.cause(err)
		if e := recover(); e != nil {
			who := ""
			if len(w.process.conns) > 1 {
				who = fmt.Sprintf("rank %d: ", w.env.Rank)
			}
			err = crash(w.process.stop, who, e, debug.Stack())
		}
		if err != nil && !errors.Is(err, train.ErrStopped) && !errors.Is(err, train.ErrNotFinite) {
			w.Abort(err)
		}
		if closed := w.Close(); err == nil {
			err = closed
		}
	}()
	if err := w.open(); err != nil {
		return err
	}
	return f(w)
}
