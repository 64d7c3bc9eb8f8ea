package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"trireme/internal/cluster/etcdstore"
	"trireme/internal/cluster/natsstore"
	"trireme/internal/secureconn"
	"trireme/launch"
	"trireme/rendezvous"
)

// open connects this launcher to the job's store, for up to JoinTimeout. It runs the store, or its replica, if
// that is here.
func (c *Config) open(ctx context.Context, note func(line string)) (_ *link, err error) {
	if c.Backend == etcd {
		return c.openEtcd(ctx, note)
	}
	s, err := thisSite()
	if err != nil {
		return nil, err
	}
	key, mode, err := c.key("launchers' store")
	if err != nil {
		return nil, err
	}
	var failure atomic.Pointer[string]
	cfg := natsstore.Config{Endpoints: c.endpoints(), Key: key, Mode: mode, Failed: func(err error) { failure.Store(new(cause(err))) }}
	l := &link{name: "the job's store at " + strings.Join(cfg.Endpoints, ", "), close: func() {}}
	server, served, err := c.serve(ctx, &s, cfg, note)
	if err != nil {
		return nil, err
	}
	if server != nil {
		l.serves, l.close = true, func() { server.Close() }
	}
	if server == nil && len(cfg.Endpoints) == 1 {
		l.only = cfg.Endpoints[0]
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Conf.JoinTimeout, fmt.Errorf("join_timeout of %v", c.Conf.JoinTimeout))
	defer cancel()
	defer c.noteWait(ctx, l.name, note, failure.Load)()
	if l.Store, err = natsstore.Connect(ctx, cfg, server); err == nil {
		if l.addr, err = c.address(served); err != nil {
			l.Close()
		}
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// openEtcd connects this launcher to an etcd that is there already.
func (c *Config) openEtcd(ctx context.Context, note func(line string)) (_ *link, err error) {
	if _, err := c.secret(); err != nil { // for the workers
		return nil, err
	}
	l := &link{name: "etcd at " + strings.Join(c.endpoints(), ", "), close: func() {}}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Conf.JoinTimeout, fmt.Errorf("join_timeout of %v", c.Conf.JoinTimeout))
	defer cancel()
	defer c.noteWait(ctx, l.name, note, func() *string { return nil })()
	if l.Store, err = etcdstore.Connect(ctx, c.endpoints(), "trireme/"+url.PathEscape(c.RunID)+"/", c.Lookup); err == nil {
		if l.addr, err = c.address(""); err != nil {
			l.Close()
		}
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// key returns the key and protection of connections between launchers, for one purpose.
func (c *Config) key(purpose string) ([]byte, secureconn.Mode, error) {
	secret, err := c.secret()
	if err != nil {
		return nil, 0, err
	}
	mode := secureconn.Encrypt
	if secret == nil { // Insecure
		secret, mode = []byte("no secret"), secureconn.Plain
	}
	key, err := rendezvous.Env{Secret: secret, RunID: c.RunID}.Key(purpose)
	return key, mode, err
}

// portTimeout is the time for which a port may still belong to the launcher of an earlier job.
const portTimeout = 3 * time.Second

// serve starts the server of an endpoint of this host. served is the address that it listens on.
func (c *Config) serve(ctx context.Context, s *site, cfg natsstore.Config, note func(string)) (server *natsstore.Server, served string, err error) {
	for _, i := range c.servable(ctx, s) {
		host, port, err := net.SplitHostPort(cfg.Endpoints[i])
		if err != nil {
			return nil, "", err
		}
		if served, err = s.listen(ctx, host, c.LocalAddr); err != nil {
			return nil, "", err
		}
		for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
			server, err = natsstore.Serve(ctx, cfg, i, net.JoinHostPort(served, port))
			if err == nil {
				if !s.own(ctx, host) {
					note(fmt.Sprintf("note: %s is no name or address of this host, which listens at %s", host, served))
				}
				return server, served, nil
			}
			if used := errors.Is(err, syscall.EADDRINUSE); used && c.NodeRank == nil {
				break
			} else if !used || time.Since(began) > portTimeout || ctx.Err() != nil {
				return nil, "", err
			}
		}
	}
	return nil, "", nil // another launcher of this host serves, or another host
}

// cause is why a connection failed, in a few words.
func cause(err error) string {
	var (
		name  *net.DNSError
		errno syscall.Errno
		late  interface{ Timeout() bool }
	)
	switch {
	case errors.Is(err, secureconn.ErrKey):
		return "another secret or --rdzv-id there"
	case errors.Is(err, secureconn.ErrStranger):
		return "another program answers"
	case errors.As(err, &name):
		return fmt.Sprintf("cannot resolve %s: %s", name.Name, name.Err)
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &late) && late.Timeout():
		return "no answer"
	}
	return err.Error()
}

// noteWait says after a second, and then at growing intervals, that the store does not answer, and why. stop
// ends it.
func (c *Config) noteWait(ctx context.Context, name string, note func(string), failure func() *string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(done)
		for wait := time.Second; ; wait = min(2*wait, time.Minute) {
			select {
			case <-time.After(wait):
				why := ""
				if f := failure(); f != nil {
					why = ": " + *f
				}
				note(fmt.Sprintf("waiting for %s since %v%s (join_timeout %v)", name, time.Since(began).Round(time.Second), why, c.Conf.JoinTimeout))
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// probe reports when the only server of the store is gone: its host answers, but nothing listens. Then the
// job cannot continue. It is called when the registration was lost, and ends with ctx.
func (d *driver) probe(ctx context.Context) {
	if d.link.only == "" {
		return
	}
	for refused := 0; ; {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", d.link.only)
		switch {
		case err == nil:
			conn.Close()
			refused = 0
		case errors.Is(err, syscall.ECONNREFUSED):
			refused++
		}
		if refused == 3 {
			host, _, _ := net.SplitHostPort(d.link.only)
			d.send(abandoned{launch.CodePeerLost, fmt.Sprintf("the launcher on %s, which ran %s, has ended: the job cannot continue. try: three addresses in --rdzv-endpoint, for a store that survives one host", host, d.link.name)})
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}
