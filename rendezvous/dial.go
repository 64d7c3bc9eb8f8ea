package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"trireme/internal/secureconn"
)

// dial tries all candidates concurrently until one authenticates as this job's store. Listeners that are
// silent or fail the handshake are other programs.
func dial(ctx context.Context, addrs []string, cfg secureconn.Config, h hello, me process, note func(string)) (*channel, error) {
	began := time.Now()
	defer notify(note, fmt.Sprintf("waiting for rank 0 of %d at %s", h.world, addrs[0]))()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		ch  *channel
		err error
		try int
	}
	results := make(chan result)
	for _, a := range addrs {
		go func() {
			var last result
			pause := 5 * time.Millisecond
			for ctx.Err() == nil {
				last.try++
				ch, err := dialOnce(ctx, a, cfg, h, me)
				if err == nil {
					last.ch = ch
					break
				}
				if r := (*secureconn.Refused)(nil); errors.As(err, &r) {
					last.err = &Failure{Kind: ErrRefused, Rank: -1, Text: fmt.Sprintf("rendezvous: rank 0 at %s refused rank %d: %s", a, h.rank, r.Text)}
					cancel()
					break
				}
				end, limited := ctx.Deadline() // ignore the error of a try that the deadline cut off
				if last.err == nil || ctx.Err() == nil && (!limited || time.Now().Before(end)) {
					last.err = err
				}
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
				pause = min(pause*3/2, 250*time.Millisecond)
			}
			results <- last
		}()
	}
	var won *channel
	var refused *Failure
	var all []string
	tries := 0
	for range addrs {
		r := <-results
		switch {
		case r.ch != nil && won == nil:
			won = r.ch
			cancel()
		case r.ch != nil:
			r.ch.Close()
		}
		var f *Failure
		if errors.As(r.err, &f) {
			refused = f
		}
		tries += r.try
		all = append(all, reason(r.err))
	}
	if won != nil {
		return won, nil
	}
	if refused != nil {
		return nil, refused
	}
	if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("rendezvous: rank %d: %w", h.rank, err)
	}
	return nil, &Failure{Kind: ErrTimeout, Rank: 0, Text: fmt.Sprintf("rank %d cannot reach rank 0 at %s or the next ports (%s; %d tries in %v): rank 0 has not started, or has a different TORCHELASTIC_RUN_ID, TORCHELASTIC_RESTART_COUNT or job secret. try: start it with RANK=0 and the same MASTER_ADDR and MASTER_PORT",
		h.rank, addrs[0], strings.Join(unique(all), ", "), tries, time.Since(began).Round(time.Millisecond))}
}

func dialOnce(ctx context.Context, addr string, cfg secureconn.Config, h hello, me process) (*channel, error) {
	c, err := secureconn.Dial(ctx, addr, cfg, h.encode())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	ch, err := newChannel(c, me)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return ch, nil
}

func reason(err error) string {
	var ne net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, secureconn.ErrStranger):
		return "another program or job answers"
	case errors.As(err, &ne) && ne.Timeout():
		return "no answer"
	case err == nil:
		return "canceled"
	}
	return err.Error()
}

func unique(ss []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range ss {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
