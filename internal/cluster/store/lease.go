package store

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Lease is a key that this process owns and renews. Its methods may be called concurrently.
type Lease struct {
	key    string
	ttl    time.Duration
	clock  Clock
	owned  Owned
	ctx    context.Context // ends with the lease
	cancel context.CancelFunc
	lost   chan struct{}

	call sync.Mutex // held during a call of owned

	mu         sync.Mutex
	started    time.Time // start of the last renewal that succeeded
	err        error
	ended      bool
	stopRenew  func()
	stopExpiry func()
}

// Owned is the part of a lease that depends on the implementation of the store. Its methods are not called
// concurrently. ErrConflict and ErrNotFound mean that the key has ended; other errors of Renew are retried.
type Owned interface {
	Renew(ctx context.Context) error
	Update(ctx context.Context, value []byte) (revision uint64, err error)
	Release(ctx context.Context) error
}

// KeepLease renews owned each third of ttl, for packages that implement Store. granted is the time just
// before the key was created.
func KeepLease(key string, ttl time.Duration, granted time.Time, clock Clock, owned Owned) *Lease {
	l := &Lease{key: key, ttl: ttl, clock: clock, owned: owned, lost: make(chan struct{}), started: granted}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.schedule(ttl / 3)
	return l
}

// schedule sets the timers of the next renewal and of the expiry. l.mu is held.
func (l *Lease) schedule(renew time.Duration) {
	l.stop()
	l.stopRenew = l.clock.AfterFunc(renew, l.renew)
	l.stopExpiry = l.clock.AfterFunc(l.started.Add(l.ttl).Sub(l.clock.Now()), func() {
		l.mu.Lock()
		late := l.clock.Now().Sub(l.started) >= l.ttl
		l.mu.Unlock()
		if late {
			l.lose(ErrUnavailable)
		}
	})
}

func (l *Lease) stop() {
	if l.stopRenew != nil {
		l.stopRenew()
		l.stopExpiry()
	}
}

func (l *Lease) renew() {
	l.call.Lock()
	defer l.call.Unlock()
	if l.ctx.Err() != nil {
		return
	}
	start := l.clock.Now()
	err := l.owned.Renew(l.ctx)
	if errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) {
		l.lose(err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	if err != nil {
		l.schedule(l.ttl / 10)
		return
	}
	l.started = start
	l.schedule(l.ttl / 3)
}

// lose ends the lease without the owner's wish.
func (l *Lease) lose(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.end(&lostError{l.key, cause})
	close(l.lost)
}

// end stops renewals. l.mu is held.
func (l *Lease) end(err error) {
	l.ended, l.err = true, err
	l.stop()
	l.cancel()
}

// Key is the key of the lease.
func (l *Lease) Key() string { return l.key }

// Lost is closed when the lease ends without Release: when it could not be renewed for its ttl, or its key
// was deleted. By clocks of equal speed the owner knows before the key disappears for others.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Err returns why the lease ended: nil while it is held, an ErrLeaseLost, or ErrClosed after Release and
// Abandon.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Update replaces the value of the key and returns its revision. After the lease ended the error is Err's.
func (l *Lease) Update(ctx context.Context, value []byte) (uint64, error) {
	if err := CheckWrite(l.key, value); err != nil {
		return 0, err
	}
	l.call.Lock()
	defer l.call.Unlock()
	if err := l.Err(); err != nil {
		return 0, err
	}
	rev, err := l.owned.Update(ctx, value)
	if errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) {
		l.lose(err)
		err = l.Err()
	}
	return rev, err
}

// Release deletes the key at once. A lease that has ended is not an error.
func (l *Lease) Release(ctx context.Context) error {
	l.Abandon()
	l.call.Lock()
	defer l.call.Unlock()
	if errors.Is(l.Err(), ErrLeaseLost) {
		return nil
	}
	err := l.owned.Release(ctx)
	if errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Abandon ends the renewals, as the death of the owner does: the key disappears within its ttl.
func (l *Lease) Abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.end(Error(l.key, ErrClosed))
	}
}

type lostError struct {
	key   string
	cause error
}

func (e *lostError) Error() string {
	return "store: " + e.key + ": " + ErrLeaseLost.Error() + ": " + e.cause.Error()
}

func (e *lostError) Unwrap() []error { return []error{ErrLeaseLost, e.cause} }
