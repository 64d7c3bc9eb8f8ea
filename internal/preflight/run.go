package preflight

import (
	"context"
	"fmt"
	"net"
	"time"

	"trireme/internal/host"
	"trireme/internal/secureconn"
)

// Run checks this host against the others, which must call it too, and returns the report, the same on all
// hosts. It takes seconds. The error names a host that was lost on the way.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	began := time.Now()
	conn := secureconn.Config{Key: cfg.Key, Mode: cfg.Mode}
	me := about{Name: cfg.Name, Address: cfg.Address, Digest: cfg.Digest, Facts: cfg.Facts}
	l, err := secureconn.Listen(ctx, net.JoinHostPort(cfg.Address, "0"), conn, nil)
	if err != nil {
		me.Err = err.Error() // the others must not wait for this host
	} else {
		me.Listen = l.Addr().String()
		s := serve(l, cfg.Now)
		defer s.close()
	}
	hosts, err := gather(ctx, &cfg, "hosts", me)
	if err != nil {
		return nil, err
	}
	p := &prober{cfg: &cfg, conn: conn, hosts: hosts}
	mine := p.connectAll(ctx)
	links, err := gather(ctx, &cfg, "links", mine)
	if err != nil {
		links = make([][]Link, cfg.N)
		for i := range links {
			links[i] = make([]Link, cfg.N)
		}
		links[cfg.Index] = mine
		return p.stopped(ctx, links, err)
	}
	for i := range links {
		if len(links[i]) != cfg.N {
			return nil, fmt.Errorf("preflight: host %d sent results of %d hosts, not %d", i, len(links[i]), cfg.N)
		}
	}
	speeds, err := p.measureSpeeds(ctx, links)
	if err != nil {
		return p.stopped(ctx, links, err)
	}
	for i := range links {
		for j := range links[i] {
			links[i][j].Speed = speeds[i][j]
		}
	}
	r := newReport(hosts, links)
	if r.connected() {
		sums, err := gather(ctx, &cfg, "sum", p.allReduce(ctx))
		if err != nil {
			return nil, err
		}
		r.Sums = sums
	}
	r.Seconds = time.Since(began).Seconds()
	r.judge()
	return r, nil
}

// stopped returns a report of what is known when a step failed: a defect of the network may be the cause.
func (p *prober) stopped(ctx context.Context, links [][]Link, cause error) (*Report, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r := newReport(p.hosts, links)
	r.judgeLinks()
	r.judgePackets()
	if len(r.Findings) == 0 {
		return nil, cause
	}
	r.judgeSoftware()
	r.judgeNames()
	r.add(host.Note, "network", "the check ended early: "+cause.Error(), "the other findings first", p.cfg.Index)
	return r.Judged(), nil
}
