//go:build etcd

package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"trireme/internal/cluster/store"
)

// Watch implements store.Store.
func (c *client) Watch(ctx context.Context, prefix string) (*store.Watch, error) {
	if err := store.CheckPrefix(prefix); err != nil {
		return nil, err
	}
	call, end, err := c.begin(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	defer end()
	now, err := c.etcd.Get(call, c.prefix+prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, c.failed(call, prefix, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(store.Error(prefix, store.ErrClosed)) })
	return store.NewWatch(ctx, func(ctx context.Context, emit func(store.Event) error) error {
		defer stop()
		defer cancel(nil)
		event := func(kind store.Kind, key, value []byte, revision int64) error {
			e := store.Event{Kind: kind, Entry: store.Entry{Key: strings.TrimPrefix(string(key), c.prefix), Value: value, Revision: uint64(revision)}}
			return emit(e)
		}
		for _, kv := range now.Kvs {
			if err := event(store.Put, kv.Key, kv.Value, kv.ModRevision); err != nil {
				return err
			}
		}
		if err := emit(store.Event{Kind: store.Synced}); err != nil {
			return err
		}
		changes := c.etcd.Watch(clientv3.WithRequireLeader(ctx), c.prefix+prefix, clientv3.WithPrefix(), clientv3.WithRev(now.Header.Revision+1))
		next := now.Header.Revision + 1
		for {
			for r := range changes {
				if err := r.Err(); r.CompactRevision != 0 {
					return fmt.Errorf("etcdstore: a watch of %s is behind: %w. watch again", prefix, err)
				} else if err != nil {
					break // without a leader
				}
				for _, e := range r.Events {
					kind, value := store.Put, e.Kv.Value
					if e.Type == clientv3.EventTypeDelete {
						kind, value = store.Deleted, nil
					}
					if err := event(kind, e.Kv.Key, value, e.Kv.ModRevision); err != nil {
						return err
					}
					next = e.Kv.ModRevision + 1
				}
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := c.reach(ctx); err != nil && !errors.Is(err, store.ErrUnavailable) {
				return err
			}
			changes = c.etcd.Watch(clientv3.WithRequireLeader(ctx), c.prefix+prefix, clientv3.WithPrefix(), clientv3.WithRev(next))
		}
	}), nil
}
