package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"trireme/internal/cluster/store"
	"trireme/launch"
)

// act does an action. It returns the result when the machine has finished.
func (d *driver) act(a action) *result {
	switch a := a.(type) {
	case say:
		fmt.Fprintln(d.stderr, a.text)
	case register:
		d.register()
	case leave:
		if l := d.lease; l != nil {
			d.lease = nil
			d.wg.Go(func() { // also after the end of d.ctx: others wait for it
				ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), retryAfter)
				defer cancel()
				l.Release(ctx)
			})
		}
	case write:
		d.timed(func(ctx context.Context) { d.write(ctx, a) })
	case form:
		d.timed(func(ctx context.Context) { d.form(ctx, a) })
	case start:
		d.start(a)
	case cancel:
		d.halt(errors.New(a.why))
	case forward:
		d.forward(a.signal)
	case finish:
		return a.result
	}
	return nil
}

// timed calls f in the background, for up to retryAfter: the machine repeats what has no effect.
func (d *driver) timed(f func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(d.ctx, retryAfter)
	d.wg.Go(func() {
		defer cancel()
		f(ctx)
	})
}

// write writes a key. A conflict is no error: the watch shows the other value.
func (d *driver) write(ctx context.Context, a write) {
	if a.revision == 0 {
		d.link.Create(ctx, d.prefix+a.key, a.value)
	} else {
		d.link.Update(ctx, d.prefix+a.key, a.value, a.revision)
	}
}

// form writes a generation with a free port of this host.
func (d *driver) form(ctx context.Context, a form) {
	if g := &a.generation; g.MasterPort == 0 {
		port, err := launch.FreePort(d.link.addr)
		if err != nil {
			d.send(abandoned{launch.CodeFailed, err.Error()})
			return
		}
		g.MasterPort = port
	}
	d.write(ctx, write{generationKey, encode(&a.generation), a.revision})
}

// register adds this host to the job, with a lease.
func (d *driver) register() {
	h := d.m.self
	h.ID = strings.ToLower(launch.RandomID())
	d.timed(func(ctx context.Context) {
		order, err := d.link.Create(ctx, d.prefix+"order/"+h.ID, nil)
		if err != nil {
			return
		}
		h.Order = order
		lease, err := d.link.Lease(ctx, d.prefix+hostsPrefix+h.ID, encode(h), d.cfg.Conf.Lease)
		if err != nil {
			return
		}
		d.send(joined{registered{h}, lease})
	})
}

// joined is sent to the loop, which keeps the lease and watches it.
type joined struct {
	registered
	lease *store.Lease
}

// joined keeps the lease of this host and sends unregistered when it is lost.
func (d *driver) joined(j joined) event {
	if d.lease != nil && d.lease.Err() == nil { // two attempts succeeded
		d.timed(func(ctx context.Context) { j.lease.Release(ctx) })
		return tick{}
	}
	d.lease = j.lease
	d.wg.Go(func() {
		select {
		case <-j.lease.Lost():
			d.send(unregistered{})
			d.probe(d.ctx)
		case <-d.ctx.Done():
		}
	})
	return j.registered
}

// start runs the workers of a generation.
func (d *driver) start(a start) {
	g, me := a.generation, a.generation.Hosts[a.index]
	c := d.cfg.Workers
	c.World = launch.World{
		FirstRank: me.First, Size: g.Size, FirstSize: g.FirstSize, Host: a.index, Hosts: len(g.Hosts), MasterAddr: g.MasterAddr, MasterPort: g.MasterPort,
		RunID: g.RunID, Generation: g.Number, MaxRestarts: d.cfg.MaxRestarts, Secret: d.cfg.Secret, Insecure: d.cfg.Insecure,
	}
	d.signals = make(chan os.Signal, 32)
	c.Signals = d.signals
	c.Failing = func(code int) { d.send(failing{g.Number, code}) }
	var ctx context.Context
	ctx, d.halt = context.WithCancelCause(d.ctx)
	d.wg.Go(func() {
		if err := d.check(ctx, a); err != nil {
			d.send(ended{g.Number, me.ID, end{Code: launch.CodeNo, Text: err.Error(), Ended: ctx.Err() != nil}})
			return
		}
		code, err := launch.Run(ctx, c)
		d.send(ended{g.Number, me.ID, endOf(code, err, ctx.Err() != nil)})
	})
}

// endOf returns the record of the end of a host's workers. byOthers reports whether another host was the reason.
func endOf(code int, err error, byOthers bool) end {
	e := end{Code: code, Ended: byOthers, Killed: errors.Is(err, launch.ErrKilled)}
	var f *launch.Failure
	switch {
	case errors.As(err, &f):
		own := *f
		own.Lines = nil
		for _, l := range f.Lines {
			own.Lines = append(own.Lines, strings.ToValidUTF8(l[:min(len(l), maxLine)], ""))
		}
		e.Failure = &own
	case err != nil && !byOthers && !e.Killed:
		e.Text = err.Error()
	}
	return e
}

// maxLine limits a line of a failed worker's output in a record, in bytes.
const maxLine = 2000

// forward passes a signal to the workers.
func (d *driver) forward(s syscall.Signal) {
	switch {
	case d.m.run != nil:
		select {
		case d.signals <- s:
		default: // full
		}
	case s == syscall.SIGTSTP:
		syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
	}
}
