package cluster

import (
	"context"

	"trireme/internal/cluster/store"
	"trireme/internal/secureconn"
)

// Check is this host among the hosts of the first generation, for Config.Preflight.
type Check struct {
	Exchange Exchange
	Index, N int             // this host's position, and the number of hosts
	Name     string          // of this host
	Address  string          // at which the others reach it
	Key      []byte          // of connections between the hosts
	Mode     secureconn.Mode // their protection
}

// Exchange gathers a value of every host through the launchers' store. Each key is used once.
type Exchange struct {
	store    store.Store
	prefix   string
	index, n int
}

// AllGather returns the values of all hosts, in their order, when all have called it with this key.
func (e Exchange) AllGather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	return store.AllGather(ctx, e.store, e.prefix+key+"/", e.index, e.n, mine)
}

// check runs Config.Preflight if this is the first start of several hosts.
func (d *driver) check(ctx context.Context, a start) error {
	g := a.generation
	if d.cfg.Preflight == nil || g.Number > 0 || len(g.Hosts) < 2 {
		return nil
	}
	key, mode, err := d.cfg.key("preflight")
	if err != nil {
		return err
	}
	e := Exchange{d.link, "preflight/" + g.Hosts[0].ID + "/", a.index, len(g.Hosts)}
	return d.cfg.Preflight(ctx, Check{Exchange: e, Index: a.index, N: len(g.Hosts), Name: g.Hosts[a.index].Name, Address: d.link.addr, Key: key, Mode: mode})
}
