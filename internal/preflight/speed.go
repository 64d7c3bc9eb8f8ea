package preflight

import (
	"context"
	"fmt"
	"time"
)

// partner returns the host that i measures with in a round of n hosts; -1 if none. In n-1 rounds (n if n is
// odd) each pair meets once: the circle method of tournaments.
func partner(i, round, n int) int {
	m := n + n%2 // with an empty chair if n is odd
	var j int
	switch {
	case i == m-1:
		j = round * (m / 2) % (m - 1)
	default:
		if j = ((round-i)%(m-1) + m - 1) % (m - 1); j == i {
			j = m - 1
		}
	}
	if j >= n {
		return -1
	}
	return j
}

func rounds(n int) int { return n + n%2 - 1 }

// measureSpeeds measures the bandwidth of each connected pair in both directions. speeds[i][j] is from i to j.
func (p *prober) measureSpeeds(ctx context.Context, links [][]Link) (speeds [][]int64, err error) {
	n, me := p.cfg.N, p.cfg.Index
	mine := make([]int64, n)
	for round := range rounds(n) {
		j := partner(me, round, n)
		for _, lower := range []bool{true, false} { // the lower of a pair sends first
			if _, err := gather(ctx, p.cfg, fmt.Sprintf("speed/%d/%v", round, lower), struct{}{}); err != nil {
				return nil, err
			}
			if j >= 0 && (me < j) == lower && links[me][j].State == Connected && links[me][j].Err == "" {
				if mine[j] = p.speed(ctx, j); mine[j] < fast { // the host may have been busy
					mine[j] = max(mine[j], p.speed(ctx, j))
				}
			}
		}
	}
	if speeds, err = gather(ctx, p.cfg, "speeds", mine); err != nil {
		return nil, err
	}
	for i := range speeds {
		if len(speeds[i]) != n {
			return nil, fmt.Errorf("preflight: host %d sent results of %d hosts, not %d", i, len(speeds[i]), n)
		}
	}
	return speeds, nil
}

// speed sends to a host for Config.Speed and returns the bytes per second that arrived; 0 if the connection
// fails.
func (p *prober) speed(ctx context.Context, j int) int64 {
	c, err := p.dial(ctx, j)
	if err != nil {
		return 0
	}
	defer c.Close()
	drain := p.cfg.Limit / 4 // of what the operating system has buffered
	if c.SetDeadline(time.Now().Add(p.cfg.Speed+drain)) != nil {
		return 0
	}
	b := make([]byte, maxProbe)
	b[0] = opMore
	began, n := time.Now(), 0
	for time.Since(began) < p.cfg.Speed {
		if c.WriteFrame(ad, b) != nil {
			return 0
		}
		n += len(b)
	}
	if _, err := call(c, opData, 1, drain); err != nil { // answered after all before it
		return 0
	}
	return int64(float64(n) / time.Since(began).Seconds())
}
