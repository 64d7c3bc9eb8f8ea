package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MissingError is returned when participants did not arrive before the context ended.
type MissingError struct {
	Prefix  string
	N       int   // number of participants
	Missing []int // their indices, in order
	Cause   error
}

func (e *MissingError) Error() string {
	names := make([]string, 0, 8)
	for _, i := range e.Missing[:min(len(e.Missing), 8)] {
		names = append(names, strconv.Itoa(i))
	}
	if len(e.Missing) > 8 {
		names = append(names, "...")
	}
	return fmt.Sprintf("store: %s: %d of %d did not arrive (%s): %v", e.Prefix, len(e.Missing), e.N, strings.Join(names, ", "), e.Cause)
}

func (e *MissingError) Unwrap() error { return e.Cause }

// AllGather writes value as participant index below prefix and returns the values of all n participants, in
// order of their indices, when all have arrived. The keys remain: each use needs a prefix of its own. A call
// that is repeated with the same value is one arrival; with another value it is ErrExists. When ctx ends
// first, the error is a *MissingError.
func AllGather(ctx context.Context, s Store, prefix string, index, n int, value []byte) ([][]byte, error) {
	if index < 0 || index >= n {
		return nil, fmt.Errorf("store: %s: participant %d of %d", prefix, index, n)
	}
	key := prefix + strconv.Itoa(index)
	if err := arrive(ctx, s, key, value); err != nil {
		return nil, err
	}
	return Collect(ctx, s, prefix, n)
}

// arrive creates a key, whose value may be there already: from this call, whose answer was lost.
func arrive(ctx context.Context, s Store, key string, value []byte) error {
	_, err := s.Create(ctx, key, value)
	if errors.Is(err, ErrExists) {
		if e, getErr := s.Get(ctx, key); getErr == nil && bytes.Equal(e.Value, value) {
			return nil
		}
	}
	return err
}

// Collect waits for the values of n participants below prefix, as AllGather, without being one of them.
func Collect(ctx context.Context, s Store, prefix string, n int) ([][]byte, error) {
	w, err := s.Watch(ctx, prefix)
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	values, arrived, count := make([][]byte, n), make([]bool, n), 0
	for e := range w.Events() {
		i, err := strconv.Atoi(strings.TrimPrefix(e.Key, prefix))
		if e.Kind != Put || err != nil || i < 0 || i >= n || arrived[i] {
			continue
		}
		values[i], arrived[i] = e.Value, true
		if count++; count == n {
			return values, nil
		}
	}
	missing := &MissingError{Prefix: prefix, N: n, Cause: w.Err()}
	for i, ok := range arrived {
		if !ok {
			missing.Missing = append(missing.Missing, i)
		}
	}
	return nil, missing
}

// Barrier returns when n participants have called it with the same prefix and different indices. It is
// AllGather without values.
func Barrier(ctx context.Context, s Store, prefix string, index, n int) error {
	_, err := AllGather(ctx, s, prefix, index, n, nil)
	return err
}

// Set writes key whatever its value and revision are, and returns the new revision. It is for keys with one
// writer and no lease; others need Update.
func Set(ctx context.Context, s Store, key string, value []byte) (uint64, error) {
	for {
		e, err := s.Get(ctx, key)
		switch {
		case errors.Is(err, ErrNotFound):
			rev, err := s.Create(ctx, key, value)
			if !errors.Is(err, ErrExists) {
				return rev, err
			}
		case err != nil:
			return 0, err
		default:
			rev, err := s.Update(ctx, key, value, e.Revision)
			if !errors.Is(err, ErrConflict) {
				return rev, err
			}
		}
	}
}

// List returns the entries whose keys start with prefix, ordered by key.
func List(ctx context.Context, s Store, prefix string) ([]Entry, error) {
	w, err := s.Watch(ctx, prefix)
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	found := map[string]Entry{}
	for e := range w.Events() {
		switch e.Kind {
		case Put:
			found[e.Key] = e.Entry
		case Deleted:
			delete(found, e.Key)
		case Synced:
			entries := make([]Entry, 0, len(found))
			for _, e := range found {
				entries = append(entries, e)
			}
			slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
			return entries, nil
		}
	}
	return nil, w.Err()
}
