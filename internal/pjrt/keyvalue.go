package pjrt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"trireme/internal/dl"
)

// KeyValue is a store that all processes of a job share. The clients of a job exchange the addresses
// of their devices through it. Values are any bytes. Several threads call it at once.
type KeyValue interface {
	// Get waits until the key has a value. After timeout it returns an error that wraps
	// os.ErrDeadlineExceeded or context.DeadlineExceeded.
	Get(key string, timeout time.Duration) ([]byte, error)
	// TryGet does not wait.
	TryGet(key string) (value []byte, found bool, err error)
	Put(key string, value []byte) error
}

// callbacks are C functions that call stores. A process has one set, because C functions made from Go
// are never freed and limited in number; the argument user_arg identifies the store.
var callbacks struct {
	once                      sync.Once
	get, tryGet, put, deleter uintptr

	mu     sync.Mutex
	last   uintptr
	stores map[uintptr]KeyValue
	values map[uintptr][]byte // values that C reads, by address, until it calls deleter
}

// connect registers a store, and gives C the functions that call it.
func connect(a *clientCreateArgs, kv KeyValue) (disconnect func()) {
	c := &callbacks
	c.once.Do(func() {
		c.stores, c.values = map[uintptr]KeyValue{}, map[uintptr][]byte{}
		c.get = dl.Callback(onGet)
		c.tryGet = dl.Callback(onTryGet)
		c.put = dl.Callback(onPut)
		c.deleter = dl.Callback(onDelete)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	id := c.last
	c.stores[id] = kv
	a.KvGetCallback, a.KvGetUserArg = c.get, id
	a.KvPutCallback, a.KvPutUserArg = c.put, id
	a.KvTryGetCallback, a.KvTryGetUserArg = c.tryGet, id
	return func() {
		c.mu.Lock()
		delete(c.stores, id)
		c.mu.Unlock()
	}
}

func onGet(a *keyValueGetCallbackArgs) uintptr {
	key := text(a.Key, a.KeySize)
	timeout := time.Duration(a.TimeoutInMs) * time.Millisecond
	if a.TimeoutInMs < 0 {
		timeout = math.MaxInt32 * time.Millisecond // an infinite duration, cast to int
	}
	var value []byte
	err := with(a.UserArg, func(kv KeyValue) (err error) {
		value, err = kv.Get(key, timeout)
		return err
	})
	if err != nil {
		return failure(a.CallbackError, codeOf(err), fmt.Sprintf("get %q: %v", key, err))
	}
	a.Value, a.ValueSize, a.ValueDeleterCallback = lend(value), len(value), callbacks.deleter
	return 0
}

func onTryGet(a *keyValueTryGetCallbackArgs) uintptr {
	key := text(a.Key, a.KeySize)
	var value []byte
	var found bool
	err := with(a.UserArg, func(kv KeyValue) (err error) {
		value, found, err = kv.TryGet(key)
		return err
	})
	if err != nil {
		return failure(a.CallbackError, codeOf(err), fmt.Sprintf("get %q: %v", key, err))
	}
	if !found {
		return failure(a.CallbackError, CodeNotFound, fmt.Sprintf("get %q: no value", key))
	}
	a.Value, a.ValueSize, a.ValueDeleterCallback = lend(value), len(value), callbacks.deleter
	return 0
}

func onPut(a *keyValuePutCallbackArgs) uintptr {
	key, value := text(a.Key, a.KeySize), []byte(text(a.Value, a.ValueSize))
	err := with(a.UserArg, func(kv KeyValue) error { return kv.Put(key, value) })
	if err != nil {
		return failure(a.CallbackError, codeOf(err), fmt.Sprintf("put %q: %v", key, err))
	}
	return 0
}

func onDelete(value uintptr) uintptr {
	callbacks.mu.Lock()
	delete(callbacks.values, value)
	callbacks.mu.Unlock()
	return 0
}

// with calls f with a store. A panic must not reach C's stack: it becomes an error.
func with(id uintptr, f func(KeyValue) error) (err error) {
	callbacks.mu.Lock()
	kv := callbacks.stores[id]
	callbacks.mu.Unlock()
	if kv == nil {
		return errors.New("the client is closed")
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return f(kv)
}

// lend returns the address of a copy that stays until C calls the deleter.
func lend(value []byte) unsafe.Pointer {
	b := make([]byte, max(len(value), 1)) // an address of its own
	copy(b, value)
	p := unsafe.Pointer(&b[0])
	callbacks.mu.Lock()
	callbacks.values[uintptr(p)] = b
	callbacks.mu.Unlock()
	return p
}

func codeOf(err error) int32 {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return CodeDeadlineExceeded
	}
	return CodeUnavailable
}

// failure returns a PJRT_Error, which the function behind create makes: C passes a pointer to a
// function pointer. The function copies the message.
func failure(create unsafe.Pointer, code int32, message string) uintptr {
	b := []byte(message)
	e := dl.Call(*(*uintptr)(create), uintptr(code), uintptr(pointer(b)), uintptr(len(b)))
	runtime.KeepAlive(b)
	return e
}
