package preflight

import (
	"context"
	"fmt"
	"time"

	"trireme/collective"
	"trireme/collective/tcp"
	"trireme/tensor"
)

// Sum is the result of the all-reduce on one host.
type Sum struct {
	Err  string        `json:"error,omitempty"`
	Want float64       `json:"want"` // of all elements together
	Got  float64       `json:"got"`
	Time time.Duration `json:"time_ns"` // without connecting
}

// sumElements is not divisible by small numbers of hosts, so that shares differ.
const sumElements = 1009

// allReduce adds up sumElements elements over all hosts by the ranks' TCP transport. Host i has (i+1)(k%7+1)
// as element k, so that the sum depends on each host and element, and is exact in float32.
func (p *prober) allReduce(ctx context.Context) (s Sum) {
	n := p.cfg.N
	for k := range sumElements {
		s.Want += float64(n*(n+1)/2) * float64(k%7+1)
	}
	if err := p.reduce(ctx, &s); err != nil {
		s.Err = err.Error()
	}
	return s
}

func (p *prober) reduce(ctx context.Context, s *Sum) (err error) {
	cfg := tcp.Config{
		Config: collective.Config{Timeout: p.cfg.Limit / 2}, Rank: p.cfg.Index, Size: p.cfg.N,
		Bootstrap: p.cfg.Exchange, Key: p.cfg.Prefix + "sum/", Secret: p.cfg.Key, Mode: tcp.Mode(p.cfg.Mode), Host: p.cfg.Address,
	}
	w, err := tcp.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		if closed := w.Close(); err == nil {
			err = closed
		}
	}()
	ranks := make([]int, p.cfg.N)
	for i := range ranks {
		ranks[i] = i
	}
	g, err := w.Group("preflight", ranks)
	if err != nil {
		return err
	}
	size := sumElements * tensor.F32.Size()
	x := tensor.Of(tensor.NewBuffer(make([]byte, size), size, tensor.Workspace, nil), tensor.F32, 0, sumElements)
	values := tensor.Host[float32](x)
	for k := range values {
		values[k] = float32((p.cfg.Index + 1) * (k%7 + 1))
	}
	began := time.Now()
	if err := g.AllReduce(ctx, x, collective.Sum, "preflight"); err != nil {
		return err
	}
	s.Time = time.Since(began)
	for k, v := range values {
		s.Got += float64(v)
		if want := float32(p.cfg.N * (p.cfg.N + 1) / 2 * (k%7 + 1)); v != want {
			return fmt.Errorf("element %d is %v, not %v", k, v, want)
		}
	}
	return nil
}
