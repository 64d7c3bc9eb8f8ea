package pjrt

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"trireme/internal/dl"
)

// memory is a KeyValue in memory.
type memory struct {
	mu     sync.Mutex
	values map[string][]byte
}

func (m *memory) Put(key string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[key] = value
	return nil
}

func (m *memory) TryGet(key string) ([]byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[key]
	return v, ok, nil
}

func (m *memory) Get(key string, timeout time.Duration) ([]byte, error) {
	if v, ok, _ := m.TryGet(key); ok {
		return v, nil
	}
	return nil, context.DeadlineExceeded
}

// The callbacks are C functions: they take what C passes, and give errors by the function that C
// names.
func TestCallbacks(t *testing.T) {
	type failed struct {
		code    int
		message string
	}
	var failures []failed
	create := dl.Callback(func(code uintptr, message unsafe.Pointer, n int) uintptr {
		failures = append(failures, failed{int(code), text(message, n)})
		return 77
	})
	var client clientCreateArgs
	disconnect := connect(&client, &memory{values: map[string][]byte{}})
	key, value := []byte("a\x00key"), []byte{0, 1, 255, 0}
	put := keyValuePutCallbackArgs{Key: pointer(key), KeySize: len(key), Value: pointer(value), ValueSize: len(value),
		CallbackError: unsafe.Pointer(&create), UserArg: client.KvPutUserArg}
	get := keyValueGetCallbackArgs{Key: pointer(key), KeySize: len(key), TimeoutInMs: 10,
		CallbackError: unsafe.Pointer(&create), UserArg: client.KvGetUserArg}
	try := keyValueTryGetCallbackArgs{Key: pointer(key), KeySize: len(key),
		CallbackError: unsafe.Pointer(&create), UserArg: client.KvTryGetUserArg}
	call := func(want uintptr) {
		t.Helper()
		r := dl.Call(client.KvGetCallback, uintptr(unsafe.Pointer(&get)))
		s := dl.Call(client.KvTryGetCallback, uintptr(unsafe.Pointer(&try)))
		if r != want || s != want {
			t.Errorf("get returned %d, try_get %d, want %d", r, s, want)
		}
	}

	call(77)
	if len(failures) != 2 || failures[0].code != CodeDeadlineExceeded || failures[1].code != CodeNotFound || !strings.Contains(failures[1].message, `a\x00key`) {
		t.Error(failures)
	}
	if r := dl.Call(client.KvPutCallback, uintptr(unsafe.Pointer(&put))); r != 0 {
		t.Errorf("put returned %d", r)
	}
	call(0)
	if !bytes.Equal(bytesAt(get.Value, get.ValueSize), value) || !bytes.Equal(bytesAt(try.Value, try.ValueSize), value) {
		t.Error(bytesAt(get.Value, get.ValueSize), bytesAt(try.Value, try.ValueSize))
	}
	if n := LentValues(); n != 2 {
		t.Errorf("%d values are lent", n)
	}
	dl.Call(get.ValueDeleterCallback, uintptr(get.Value))
	dl.Call(try.ValueDeleterCallback, uintptr(try.Value))
	if n := LentValues(); n != 0 {
		t.Errorf("%d values are not freed", n)
	}
	disconnect()
	call(77)
	if last := failures[len(failures)-1]; last.message != `get "a\x00key": the client is closed` {
		t.Error(last)
	}
}

// The bytes of options: those of a C++ program for one replica, and a map of flags.
func TestEncodeOptions(t *testing.T) {
	for _, c := range []struct {
		options CompileOptions
		want    string
	}{
		{CompileOptions{}, "\x1a\x0f\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x01\x28\x01"},
		{CompileOptions{Replicas: 2, Devices: []int{3, 300}}, "\x1a\x1c\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x02\x28\x01\x4a\x0b\x08\x02\x10\x01\x1a\x05\x08\x03\x08\xac\x02"},
		{CompileOptions{Flags: []Flag{{"a", true}, {"b", "x"}, {"c", int64(5)}, {"d", 0.5}}}, "\x1a\x0f\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x01\x28\x01" +
			"\x3a\x07\x0a\x01a\x12\x02\x10\x01" + "\x3a\x08\x0a\x01b\x12\x03\x0a\x01x" + "\x3a\x07\x0a\x01c\x12\x02\x18\x05" +
			"\x3a\x0e\x0a\x01d\x12\x09\x21\x00\x00\x00\x00\x00\x00\xe0\x3f"},
	} {
		got, err := c.options.encode(nil)
		if err != nil || string(got) != c.want {
			t.Errorf("%+v:\n%q, want\n%q %v", c.options, got, c.want, err)
		}
	}
}
