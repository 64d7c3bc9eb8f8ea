package preflight

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

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
	links, err := gather(ctx, &cfg, "links", p.connectAll(ctx))
	if err != nil {
		return nil, err
	}
	for i := range links {
		if len(links[i]) != cfg.N {
			return nil, fmt.Errorf("preflight: host %d sent results of %d hosts, not %d", i, len(links[i]), cfg.N)
		}
	}
	speeds, err := p.measureSpeeds(ctx, links)
	if err != nil {
		return nil, err
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
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	r.Seconds = time.Since(began).Seconds()
	r.judge()
	return r, nil
}
