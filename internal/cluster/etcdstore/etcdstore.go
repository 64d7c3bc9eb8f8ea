//go:build etcd

package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"trireme/internal/cluster/store"
)

// Enabled reports whether the program was built with the tag etcd.
const Enabled = true

// limit is the time after which a call without an answer ends.
const limit = 15 * time.Second

// client implements store.Store.
type client struct {
	etcd      *clientv3.Client
	prefix    string // of all keys
	endpoints string
	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	revoking  sync.WaitGroup

	mu     sync.Mutex
	leases []*store.Lease
}

var _ store.Store = (*client)(nil)

// Connect returns a client of the etcd at the endpoints, HOST:PORT or URLs, whose keys start with prefix. It
// waits for an answer until ctx ends. lookup is os.LookupEnv.
func Connect(ctx context.Context, endpoints []string, prefix string, lookup func(string) (string, bool)) (store.Store, error) {
	if err := store.CheckPrefix(prefix); err != nil {
		return nil, err
	}
	cfg, err := config(endpoints, lookup)
	if err != nil {
		return nil, err
	}
	cfg.Logger = zap.NewNop()
	c := &client{prefix: prefix, endpoints: strings.Join(endpoints, ", ")}
	if c.etcd, err = clientv3.New(cfg); err != nil {
		return nil, fmt.Errorf("etcdstore: etcd at %s: %w", c.endpoints, err)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if err := c.reach(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// reach waits for the first answer.
func (c *client) reach(ctx context.Context) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := c.etcd.Get(attempt, c.prefix+"-")
		cancel()
		if err == nil {
			return nil
		}
		if errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrUserEmpty) || errors.Is(err, rpctypes.ErrAuthFailed) || status.Code(err) == codes.Unauthenticated {
			return fmt.Errorf("etcdstore: etcd at %s refuses keys below %s: %w. try: ETCDCTL_USER=NAME:PASSWORD of a user with that prefix", c.endpoints, c.prefix, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("etcdstore: %w: etcd at %s: %w: %w. try: etcdctl --endpoints=%s endpoint health; ETCDCTL_CACERT, ETCDCTL_CERT and ETCDCTL_KEY for TLS", store.ErrUnavailable, c.endpoints, err, context.Cause(ctx), strings.ReplaceAll(c.endpoints, " ", ""))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// begin checks that a call may run, and limits it.
func (c *client) begin(ctx context.Context, key string) (context.Context, func(), error) {
	if c.ctx.Err() != nil {
		return nil, nil, store.Error(key, store.ErrClosed)
	}
	if ctx.Err() != nil {
		return nil, nil, store.Error(key, context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("time-out"))
	stop := context.AfterFunc(c.ctx, cancel)
	return ctx, func() { stop(); cancel() }, nil
}

// failed returns the error of a call without an answer.
func (c *client) failed(ctx context.Context, key string, err error) error {
	switch {
	case c.ctx.Err() != nil:
		return store.Error(key, store.ErrClosed)
	case ctx.Err() != nil:
		return store.Error(key, fmt.Errorf("%w (etcd at %s): %w", store.ErrUnavailable, c.endpoints, context.Cause(ctx)))
	}
	return store.Error(key, fmt.Errorf("%w: etcd at %s: %w", store.ErrUnavailable, c.endpoints, err))
}

// Get implements store.Store.
func (c *client) Get(ctx context.Context, key string) (store.Entry, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Entry{}, err
	}
	ctx, end, err := c.begin(ctx, key)
	if err != nil {
		return store.Entry{}, err
	}
	defer end()
	r, err := c.etcd.Get(ctx, c.prefix+key)
	if err != nil {
		return store.Entry{}, c.failed(ctx, key, err)
	}
	if len(r.Kvs) == 0 {
		return store.Entry{}, store.Error(key, store.ErrNotFound)
	}
	return store.Entry{Key: key, Value: r.Kvs[0].Value, Revision: uint64(r.Kvs[0].ModRevision)}, nil
}

// change does op if all conditions hold, and returns the revision; or refused.
func (c *client) change(ctx context.Context, key string, refused error, op clientv3.Op, conditions ...clientv3.Cmp) (uint64, error) {
	ctx, end, err := c.begin(ctx, key)
	if err != nil {
		return 0, err
	}
	defer end()
	r, err := c.etcd.Txn(ctx).If(conditions...).Then(op).Commit()
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return 0, store.Error(key, store.ErrConflict)
	}
	if err != nil {
		return 0, c.failed(ctx, key, err)
	}
	if !r.Succeeded {
		return 0, store.Error(key, refused)
	}
	return uint64(r.Header.Revision), nil
}

func (c *client) revisionIs(key string, revision uint64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(c.prefix+key), "=", int64(revision))
}

// Create implements store.Store.
func (c *client) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	if err := store.CheckWrite(key, value); err != nil {
		return 0, err
	}
	return c.change(ctx, key, store.ErrExists, clientv3.OpPut(c.prefix+key, string(value)), c.revisionIs(key, 0))
}

// Update implements store.Store.
func (c *client) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if err := store.CheckWrite(key, value); err != nil {
		return 0, err
	}
	if revision == 0 {
		return 0, store.Error(key, store.ErrConflict)
	}
	return c.change(ctx, key, store.ErrConflict, clientv3.OpPut(c.prefix+key, string(value)),
		c.revisionIs(key, revision), clientv3.Compare(clientv3.LeaseValue(c.prefix+key), "=", int64(clientv3.NoLease)))
}

// Delete implements store.Store.
func (c *client) Delete(ctx context.Context, key string, revision uint64) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	if revision == 0 {
		return store.Error(key, store.ErrConflict)
	}
	_, err := c.change(ctx, key, store.ErrConflict, clientv3.OpDelete(c.prefix+key), c.revisionIs(key, revision))
	return err
}

// Lease implements store.Store.
func (c *client) Lease(ctx context.Context, key string, value []byte, ttl time.Duration) (*store.Lease, error) {
	if err := store.CheckLease(key, value, ttl); err != nil {
		return nil, err
	}
	granted := time.Now()
	call, end, err := c.begin(ctx, key)
	if err != nil {
		return nil, err
	}
	defer end()
	grant, err := c.etcd.Grant(call, int64((ttl+time.Second-1)/time.Second))
	if err != nil {
		return nil, c.failed(call, key, err)
	}
	h := &held{client: c, key: key, lease: grant.ID}
	if _, err := c.change(ctx, key, store.ErrExists, clientv3.OpPut(c.prefix+key, string(value), clientv3.WithLease(grant.ID)), c.revisionIs(key, 0)); err != nil {
		c.revoking.Go(h.revoke)
		return nil, err
	}
	l := store.KeepLease(key, ttl, granted, store.RealClock, h)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		l.Abandon()
	}
	c.leases = append(slices.DeleteFunc(c.leases, func(l *store.Lease) bool { return l.Err() != nil }), l)
	return l, nil
}

// Close implements store.Store.
func (c *client) Close() error {
	c.cancel()
	c.mu.Lock()
	leases := c.leases
	c.leases = nil
	c.mu.Unlock()
	for _, l := range leases {
		l.Abandon()
	}
	c.revoking.Wait()
	c.etcd.Close()
	return nil
}

// held is the owner's side of a lease.
type held struct {
	client *client
	key    string
	lease  clientv3.LeaseID
}

var _ store.Owned = (*held)(nil)

// Renew implements store.Owned.
func (h *held) Renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := h.client.etcd.KeepAliveOnce(ctx, h.lease); errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return store.Error(h.key, store.ErrConflict)
	} else if err != nil {
		return err
	}
	r, err := h.client.etcd.Get(ctx, h.client.prefix+h.key, clientv3.WithKeysOnly())
	if err == nil && (len(r.Kvs) == 0 || r.Kvs[0].Lease != int64(h.lease)) {
		return store.Error(h.key, store.ErrConflict) // another client deleted the key
	}
	return err
}

func (h *held) owned() clientv3.Cmp {
	return clientv3.Compare(clientv3.LeaseValue(h.client.prefix+h.key), "=", int64(h.lease))
}

// Update implements store.Owned.
func (h *held) Update(ctx context.Context, value []byte) (uint64, error) {
	return h.client.change(ctx, h.key, store.ErrConflict, clientv3.OpPut(h.client.prefix+h.key, string(value), clientv3.WithLease(h.lease)), h.owned())
}

// Release implements store.Owned.
func (h *held) Release(ctx context.Context) error {
	_, err := h.client.change(ctx, h.key, store.ErrConflict, clientv3.OpDelete(h.client.prefix+h.key), h.owned())
	if err == nil {
		h.client.revoking.Go(h.revoke)
	}
	return err
}

// revoke frees the lease, which has no key.
func (h *held) revoke() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.client.ctx), 2*time.Second) // also during Close
	defer cancel()
	h.client.etcd.Revoke(ctx, h.lease)
}
