package rendezvous

import (
	"context"
	"errors"
	"time"
)

// KeyValue is the keys of a Store below a prefix, without contexts: the form that clients of accelerators
// call from their own threads. Values have up to 16 MiB. Its calls also end when a rank is lost or the Store
// closes.
type KeyValue struct {
	store  *Store
	prefix string
}

// KeyValue returns the keys that start with prefix, such as "pjrt/0/".
func (s *Store) KeyValue(prefix string) KeyValue { return KeyValue{s, prefix} }

// Get waits until key has a value, up to timeout and Config.Timeout. The error is then an ErrTimeout.
func (v KeyValue) Get(key string, timeout time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), max(timeout, time.Millisecond))
	defer cancel()
	return v.store.Get(ctx, v.prefix+key)
}

// TryGet returns the value of key and whether it has one, at once.
func (v KeyValue) TryGet(key string) (value []byte, found bool, err error) {
	value, err = v.store.call(context.Background(), opTryGet, v.prefix+key, nil)
	if errors.Is(err, errNone) {
		return nil, false, nil
	}
	return value, err == nil, err
}

// Put sets the value of key, which may have one, and wakes the Gets that wait for it.
func (v KeyValue) Put(key string, value []byte) error {
	return v.store.Set(context.Background(), v.prefix+key, value)
}
