package tcp

import (
	"context"
	"errors"
	"fmt"
	"os"
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

func connect(ctx context.Context, cfg *Config) (_ *transport, err error) {
	t := &transport{
		rank: cfg.Rank, timeout: cfg.Timeout, connections: cfg.Connections, failure: collective.NewFailureOnce(),
		peers: make([]*peer, cfg.Size), conns: map[*secureconn.Conn]bool{}, groups: map[uint32]*messages{}, stop: make(chan struct{}),
	}
	if t.inbox, err = newInbox(ctx, cfg.Host, cfg.Rank, cfg.Size, secureconn.Config{Key: cfg.Secret, Mode: secureconn.Mode(cfg.Mode)}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.closeAll(), t.inbox.close())
		}
	}()
	name, _ := os.Hostname() // for messages
	mine := address{listen: t.inbox.l.Addr().String(), host: uint32(cfg.Node), connections: uint32(cfg.Connections), name: name}
	all, err := cfg.Bootstrap.AllGather(ctx, cfg.Key+"tcp/address", mine.encode())
	if err != nil {
		return nil, err
	}
	for r, b := range all {
		a, err := decodeAddress(b)
		if err != nil {
			return nil, fmt.Errorf("address of rank %d: %w", r, err)
		}
		t.addrs = append(t.addrs, a)
		t.connections = min(t.connections, int(a.connections))
	}
	if err := t.connectControl(ctx); err != nil {
		return nil, err
	}
	if cfg.Local != nil {
		var ranks []int
		for r, a := range t.addrs {
			if a.host == mine.host {
				ranks = append(ranks, r)
			}
		}
		if t.local, err = cfg.Local(ctx, ranks, t.failure, t.fail); err != nil {
			return nil, err
		}
	}
	t.start()
	return t, nil
}

// connectControl connects the caller to every other rank. Ranks dial those below them.
func (t *transport) connectControl(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(t.peers))
	var wg sync.WaitGroup
	for r := range t.peers {
		if r == t.rank {
			continue
		}
		wg.Go(func() {
			var c *secureconn.Conn
			if r < t.rank {
				c, errs[r] = t.inbox.dial(ctx, t.addrs[r].listen, hello{from: uint32(t.rank), to: uint32(r), size: uint32(len(t.peers)), group: control})
			} else {
				c, errs[r] = t.inbox.take(ctx, connID{from: uint32(r), group: control})
			}
			switch {
			case errs[r] != nil:
				errs[r] = fmt.Errorf("connect to rank %d: %w", r, errs[r])
			case !t.add(c):
				errs[r] = os.ErrClosed
			default:
				t.peers[r] = &peer{rank: r, conn: c, answers: map[uint32]chan bool{}}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
