package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"trireme/internal/cluster/natsstore"
	"trireme/internal/cluster/store"
	"trireme/launch"
)

// Run takes part in a job until it ends on all hosts, and returns the exit code for this process, the same on
// all hosts: 0; launch.CodeStopped, CodeInterrupted or CodeTerminated after a stop signal on one of the hosts;
// or that of the worker that failed first, with a *launch.Failure. launch.CodePeerLost is also the code for a
// lost host, a lost store, and hosts that do not join. If ctx is done, Run ends the workers and leaves the job.
func Run(ctx context.Context, cfg Config) (code int, err error) {
	if err := cfg.Validate(); err != nil {
		return launch.CodeUsage, err
	}
	if err := cfg.Workers.Validate(); err != nil {
		return launch.CodeUsage, err
	}
	if cfg.replicated() && cfg.Conf.Lease == 0 {
		cfg.Conf.Lease = natsstore.ReplicatedTTL // leases survive an election
	}
	cfg.Conf = cfg.Conf.withDefaults()
	if cfg.Name == "" {
		if cfg.Name, err = os.Hostname(); err != nil {
			return launch.CodeFailed, fmt.Errorf("cluster: %w", err)
		}
	}
	if cfg.Workers.Stderr == nil {
		cfg.Workers.Stderr = os.Stderr
	}
	if cfg.Workers.Grace <= 0 {
		cfg.Workers.Grace = 5 * time.Second
	}
	if cfg.restarts() && cfg.Workers.Memory == nil {
		memory, err := launch.NewMemory()
		if err != nil {
			return launch.CodeFailed, err
		}
		defer memory.Close() // after the last generation
		cfg.Workers.Memory = memory
	}
	d := &driver{cfg: cfg, events: make(chan event, 64), stderr: cfg.Workers.Stderr, began: time.Now()}
	if cfg.alone() {
		d.link = &link{Store: store.NewMemory(nil).Client(), addr: "127.0.0.1", close: func() {}}
		d.cfg.Conf.Lease = math.MaxInt64 / 4 // also if this process is stopped for a while
	} else if code, err := d.connect(ctx); code != 0 || err != nil {
		return code, err
	}
	defer d.link.close()
	return d.run(ctx)
}

// connect opens the store, until a stop signal.
func (d *driver) connect(ctx context.Context) (code int, err error) {
	if d.cfg.Secret, err = d.cfg.secret(); err != nil {
		return launch.CodeUsage, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	opened := make(chan error, 1)
	go func() {
		var err error
		d.link, err = d.cfg.open(ctx, func(line string) { fmt.Fprintln(d.stderr, line) })
		opened <- err
	}()
	var stop *launch.StopRequest
	for {
		select {
		case s := <-d.cfg.Workers.Signals:
			if s != syscall.SIGQUIT && s != syscall.SIGTSTP && stop == nil {
				stop = &launch.StopRequest{Signal: s.(syscall.Signal)}
				cancel(stop)
			}
		case err := <-opened:
			switch {
			case stop != nil && err != nil:
				return stop.Code(), nil
			case stop != nil:
				d.link.Close()
				d.link.close()
				return stop.Code(), nil
			case errors.Is(err, store.ErrUnavailable):
				return launch.CodePeerLost, err
			case err != nil:
				return launch.CodeUsage, err
			}
			return 0, nil
		}
	}
}

// link is a launcher's connection to the store.
type link struct {
	store.Store
	addr   string // of this host, for the others
	serves bool   // this launcher runs the store, or a replica
	name   string // in messages
	only   string // address of the only server, of another launcher, or ""
	close  func() // ends the server
}

// driver runs a machine: it does its actions, and sends it events.
type driver struct {
	cfg    Config
	link   *link
	prefix string // of the job's keys
	events chan event
	stderr io.Writer
	began  time.Time
	m      *machine

	ctx    context.Context // of all goroutines
	cancel context.CancelFunc
	wg     sync.WaitGroup
	lease  *store.Lease

	signals chan os.Signal // to the workers
	halt    context.CancelCauseFunc
}

// run runs the machine to its end.
func (d *driver) run(ctx context.Context) (code int, err error) {
	d.ctx, d.cancel = context.WithCancel(context.WithoutCancel(ctx))
	id := d.cfg.RunID
	if id == "" {
		id = "none"
	}
	d.prefix = "job/" + url.PathEscape(id) + "/"
	self := host{Name: d.cfg.Name, Rank: -1, Ranks: d.cfg.Workers.Nproc * max(1, d.cfg.Workers.Ranks), Addr: d.link.addr}
	self.Least, self.Most = d.cfg.hosts()
	if d.cfg.NodeRank != nil {
		self.Rank = *d.cfg.NodeRank
	}
	if self.Logs = d.cfg.Workers.LogDir; self.Logs != "" {
		if self.Logs, err = filepath.Abs(self.Logs); err != nil {
			return launch.CodeFailed, fmt.Errorf("cluster: %w", err)
		}
	}
	s := settings{least: self.Least, most: self.Most, restarts: d.cfg.MaxRestarts, elastic: d.cfg.elastic(), serves: d.link.serves, replicated: d.cfg.replicated(), keeps: d.cfg.Backend == etcd, store: d.link.name,
		runID: d.cfg.RunID, masterAddr: d.cfg.MasterAddr, masterPort: d.cfg.masterPort(), Conf: d.cfg.Conf, grace: d.cfg.Workers.Grace}
	if s.runID == "" {
		s.runID = launch.RandomID()
	}
	d.m = newMachine(s, self)
	d.wg.Go(d.watch)
	r := d.loop(ctx)
	d.cancel()
	d.wg.Wait()
	d.link.Close()
	return d.outcome(r)
}

// loop steps the machine until it finishes.
func (d *driver) loop(ctx context.Context) *result {
	done := ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var e event = tick{}
		select {
		case e = <-d.events:
		case s := <-d.cfg.Workers.Signals:
			e = signaled{s.(syscall.Signal)}
		case <-timer.C:
		case <-done:
			done = nil
			e = abandoned{launch.CodeFailed, context.Cause(ctx).Error()}
		}
		if j, ok := e.(joined); ok {
			e = d.joined(j)
		}
		now := time.Since(d.began)
		actions, wake := d.m.step(now, e)
		timer.Stop()
		if wake > 0 {
			timer.Reset(wake - now)
		}
		for _, a := range actions {
			if r := d.act(a); r != nil {
				return r
			}
		}
	}
}

// outcome returns the code and error of a result.
func (d *driver) outcome(r *result) (int, error) {
	switch {
	case r.Killed:
		return r.Code, launch.ErrKilled
	case r.Failure != nil:
		f := *r.Failure
		if r.Host != d.m.self.ID && f.Crash == "" { // another terminal has shown it
			f.Shown = false
		}
		return r.Code, &f
	case r.Text != "":
		return r.Code, errors.New(r.Text)
	}
	return r.Code, nil
}

// send sends an event to the machine while it runs.
func (d *driver) send(e event) {
	select {
	case d.events <- e:
	case <-d.ctx.Done():
	}
}

// watch sends the changes of the job's keys.
func (d *driver) watch() {
	for d.ctx.Err() == nil {
		w, err := d.link.Watch(d.ctx, d.prefix)
		if err == nil {
			d.send(reset{})
			for e := range w.Events() {
				switch e.Kind {
				case store.Put:
					d.send(changed{strings.TrimPrefix(e.Key, d.prefix), e.Value, e.Revision})
				case store.Deleted:
					d.send(changed{strings.TrimPrefix(e.Key, d.prefix), nil, e.Revision})
				case store.Synced:
					d.send(synced{})
				}
			}
		}
		select {
		case <-time.After(retryAfter / 10):
		case <-d.ctx.Done():
		}
	}
}
