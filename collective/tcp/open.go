package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"trireme/collective"
	"trireme/internal/secureconn"
)

// Open connects a rank to the others. It waits for all of them, up to the time-out.
func Open(ctx context.Context, cfg Config) (collective.World, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	t, err := connect(ctx, &cfg)
	if err != nil {
		return nil, fmt.Errorf("collective/tcp: rank %d of %d: %w", cfg.Rank, cfg.Size, err)
	}
	return collective.NewWorld(cfg.Rank, cfg.Size, t, cfg.Config)
}

func connect(ctx context.Context, cfg *Config) (*transport, error) {
	t := &transport{
		rank: cfg.Rank, size: cfg.Size, timeout: cfg.Timeout, conf: secureconn.Config{Key: cfg.Secret, Mode: secureconn.Mode(cfg.Mode)},
		failure: collective.NewFailureOnce(), peers: make([]*peer, cfg.Size), conns: map[*secureconn.Conn]bool{}, stop: make(chan struct{}),
	}
	var err error
	if t.acceptor, err = newAcceptor(ctx, cfg.Host, cfg.Rank, cfg.Size, t.conf); err != nil {
		return nil, err
	}
	all, err := cfg.Bootstrap.AllGather(ctx, cfg.Key+"tcp/address", []byte(t.acceptor.l.Addr().String()))
	if err != nil {
		return nil, errors.Join(err, t.acceptor.close())
	}
	for _, a := range all {
		t.addrs = append(t.addrs, string(a))
	}
	ranks := make([]int, cfg.Size)
	for r := range ranks {
		ranks[r] = r
	}
	conns, err := t.mesh(ctx, ranks, cfg.Rank, control, 0, 0)
	if err != nil {
		t.closeAll()
		return nil, errors.Join(err, t.acceptor.close())
	}
	for r, c := range conns {
		if c != nil {
			t.peers[r] = &peer{rank: r, conn: c}
		}
	}
	t.start()
	return t, nil
}

// mesh connects the caller to each of ranks. Ranks dial those below them.
func (t *transport) mesh(ctx context.Context, ranks []int, me int, group, conn uint32, key uint64) ([]*secureconn.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conns, errs := make([]*secureconn.Conn, len(ranks)), make([]error, len(ranks))
	var wg sync.WaitGroup
	for i, r := range ranks {
		if i == me {
			continue
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			var c *secureconn.Conn
			if r < t.rank {
				c, errs[i] = dial(ctx, t.addrs[r], t.conf, hello{uint32(t.rank), uint32(r), uint32(t.size), group, conn, key})
			} else {
				c, errs[i] = t.acceptor.take(ctx, connID{uint32(r), group, conn, key})
			}
			if errs[i] != nil {
				errs[i] = fmt.Errorf("connect to rank %d: %w", r, errs[i])
				return
			}
			conns[i] = c
			if !t.add(conns[i]) {
				errs[i] = net.ErrClosed
			}
		}()
	}
	wg.Wait()
	return conns, errors.Join(errs...)
}
