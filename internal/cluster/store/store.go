package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors that callers branch on. They are wrapped with the key and the cause.
var (
	// ErrNotFound: the key does not exist.
	ErrNotFound = errors.New("the key does not exist")
	// ErrExists: Create or Lease of a key that exists.
	ErrExists = errors.New("the key exists already")
	// ErrConflict: the key changed after the revision that the caller read, or it does not exist any more.
	ErrConflict = errors.New("the key was changed by another process")
	// ErrUnavailable: no answer from the store. A write may have happened or may still happen: read the key to
	// find out.
	ErrUnavailable = errors.New("the job's store does not answer")
	// ErrLeaseLost: a lease ended without its owner's Release.
	ErrLeaseLost = errors.New("the lease is lost")
	// ErrClosed: the Store or the watch was closed by its owner.
	ErrClosed = errors.New("the store is closed")
)

const (
	// MaxKey is the limit of a key in bytes.
	MaxKey = 512
	// MaxValue is the limit of a value in bytes.
	MaxValue = 1 << 20
)

// Entry is a key with its value. Revision is the revision of the change that gave it this value. Revisions
// grow with each change of any key of the store.
type Entry struct {
	Key      string
	Value    []byte
	Revision uint64
}

// Store is one client of a store. Its methods may be called concurrently. Each ends when its context does,
// with an error that wraps the context's cause. Writes are linearizable: all clients see them in one order.
type Store interface {
	// Get returns the entry of a key, or ErrNotFound.
	Get(ctx context.Context, key string) (Entry, error)
	// Create adds a key and returns its revision, or ErrExists.
	Create(ctx context.Context, key string, value []byte) (revision uint64, err error)
	// Update replaces the value of a key that still has the revision, and returns the new one; or ErrConflict.
	// Keys with a lease are updated by Lease.Update only: this returns ErrConflict for them.
	Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)
	// Delete removes a key that still has the revision, or returns ErrConflict. It ends the lease of a key that
	// has one.
	Delete(ctx context.Context, key string, revision uint64) error
	// Watch sends the entries whose keys start with prefix, in any order, then an event Synced, then each
	// change in the order of revisions. It ends with ctx, or with an error when changes may have been missed;
	// lost connections alone do not end it.
	Watch(ctx context.Context, prefix string) (*Watch, error)
	// Lease adds a key that disappears when its owner does not renew it for ttl; or ErrExists. It is renewed in
	// the background until it is released, lost, or the Store is closed. ttl is MinTTL or more.
	Lease(ctx context.Context, key string, value []byte, ttl time.Duration) (*Lease, error)
	// Close ends the client, its watches and the renewal of its leases. Keys of leases that were not released
	// disappear after their ttl.
	Close() error
}

// MinTTL is the shortest ttl of a lease.
const MinTTL = 100 * time.Millisecond

// CheckKey returns an error unless key is valid.
func CheckKey(key string) error {
	if len(key) == 0 || len(key) > MaxKey {
		return fmt.Errorf("store: key %.40q has %d bytes, not 1 to %d", key, len(key), MaxKey)
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" {
			return fmt.Errorf("store: key %q has an empty segment", key)
		}
		for i := range len(segment) {
			if segment[i] < '!' || segment[i] > '~' {
				return fmt.Errorf("store: key %q has a byte %#x: use printable ASCII without spaces", key, segment[i])
			}
		}
	}
	return nil
}

// CheckPrefix returns an error unless prefix is valid: empty, or a key and a slash.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	key, ok := strings.CutSuffix(prefix, "/")
	if !ok {
		return fmt.Errorf("store: prefix %q does not end with a slash", prefix)
	}
	return CheckKey(key)
}

// CheckWrite returns an error unless key and value may be written.
func CheckWrite(key string, value []byte) error {
	if len(value) > MaxValue {
		return fmt.Errorf("store: the value of %s has %d bytes, more than %d", key, len(value), MaxValue)
	}
	return CheckKey(key)
}

// CheckLease returns an error unless a lease of key may be written.
func CheckLease(key string, value []byte, ttl time.Duration) error {
	if ttl < MinTTL {
		return fmt.Errorf("store: the lease of %s has %v, less than %v", key, ttl, MinTTL)
	}
	return CheckWrite(key, value)
}

// Error wraps an error with the key that it is about.
func Error(key string, err error) error { return fmt.Errorf("store: %s: %w", key, err) }
