package pjrt_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"trireme/internal/pjrt"
)

// fake compiles the plug-in in testdata/fake.c.
func fake(t testing.TB, defines ...string) string {
	t.Helper()
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil {
		t.Skipf("SKIPPED: no C compiler: %v", err)
	}
	file := filepath.Join(t.TempDir(), "fake.so")
	args := append([]string{"-shared", "-fPIC", "-pthread", "-I", "generate/testdata", "-o", file, "testdata/fake.c"}, defines...)
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

func TestLoadFails(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.so")
	if err := os.WriteFile(garbage, []byte("\x7fELF, but not quite"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, want string }{
		{filepath.Join(dir, "missing.so"), "no such file"},
		{dir, "not a file"},
		{garbage, "cannot be loaded"},
		{fake(t, "-DMINOR=56"), "PJRT API 0.56 is not supported"},
		{fake(t, "-DMAJOR=1", "-DMINOR=0"), "PJRT API 1.0 is not supported"},
		{fake(t, "-DNO_TABLE"), "returned no table"},
		{fake(t, "-DTABLE=64"), "does not have PJRT_Plugin_Initialize"},
		{fake(t, "-DTABLE=8"), "too short"},
		{fake(t, "-DGetPjrtApi=Other"), "no function GetPjrtApi"},
		{fake(t, "-DREFUSES"), "no driver (code 9)"},
	} {
		for range 2 { // a failure is not kept
			_, err := pjrt.Load(c.file)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.file) || strings.Contains(err.Error(), "\n") {
				t.Errorf("want %q, got %v", c.want, err)
			}
		}
	}
}

func TestMissingFunction(t *testing.T) {
	p, err := pjrt.Load(fake(t, "-DTABLE=72")) // up to PJRT_Plugin_Initialize
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []func() error{
		func() error { _, err := p.NewClient(nil, nil); return err },
		func() error { _, err := p.NewTopology(nil); return err },
		func() error { _, err := p.Attributes(); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), "does not have PJRT_") {
			t.Error(err)
		}
	}
	// A null pointer inside the table is a missing function as well.
	if p, err = pjrt.Load(fake(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.NewTopology(nil); err == nil || !strings.Contains(err.Error(), "does not have PJRT_TopologyDescription_Create") {
		t.Error(err)
	}
}

// store is a KeyValue with an error of choice.
type store struct {
	mu     sync.Mutex
	values map[string][]byte
	err    error
	panics bool
	calls  int
}

func (s *store) fault() error {
	s.calls++
	if s.panics {
		panic("broken store")
	}
	return s.err
}

func (s *store) TryGet(key string) ([]byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[key]
	return v, ok, s.fault()
}

func (s *store) Get(key string, timeout time.Duration) ([]byte, error) {
	for end := time.Now().Add(timeout); ; time.Sleep(time.Millisecond) {
		if v, ok, err := s.TryGet(key); ok || err != nil {
			return v, err
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("no value after %s: %w", timeout, os.ErrDeadlineExceeded)
		}
	}
}

func (s *store) Put(key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fault(); err != nil {
		return err
	}
	s.values[key] = value
	return nil
}

// A plug-in calls the store from threads that Go did not start.
func TestKeyValue(t *testing.T) {
	p, err := pjrt.Load(fake(t))
	if err != nil {
		t.Fatal(err)
	}
	started := func(s *store, options ...pjrt.Option) error {
		_, err := p.NewClient(options, s)
		if err != nil && strings.Contains(err.Error(), "has no devices") {
			return nil // the fake started
		}
		return err
	}
	s := &store{values: map[string][]byte{}}
	if err := started(s, pjrt.Option{Name: "threads", Value: int64(16)}); err != nil {
		t.Error(err)
	}
	if len(s.values) != 16 {
		t.Errorf("%d keys", len(s.values))
	}
	if n := pjrt.LentValues(); n != 0 {
		t.Errorf("%d values are not freed", n)
	}
	if err := started(s, pjrt.Option{Name: "list", Value: []int64{-1, 0, 1}}, pjrt.Option{Name: "float", Value: float32(0.5)},
		pjrt.Option{Name: "bool", Value: true}); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		name   string
		option string
		store  *store
		code   int
		want   string
	}{
		{"time-out", "get", s, pjrt.CodeDeadlineExceeded, `get "k": no value after 30ms`},
		{"no value", "try_get", s, pjrt.CodeNotFound, `get "k": no value`},
		{"get fails", "get", &store{err: errors.New("connection lost")}, pjrt.CodeUnavailable, `get "k": connection lost`},
		{"try_get fails", "try_get", &store{err: errors.New("connection lost")}, pjrt.CodeUnavailable, `get "k": connection lost`},
		{"put fails", "put", &store{err: errors.New("connection lost")}, pjrt.CodeUnavailable, `put "k": connection lost`},
		{"panic", "put", &store{panics: true}, pjrt.CodeUnavailable, "broken store"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var e *pjrt.Error
			err := started(c.store, pjrt.Option{Name: c.option, Value: "k"})
			if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(e.Message, c.want) {
				t.Error(err)
			}
		})
	}
	if n := pjrt.ConnectedStores(); n != 0 {
		t.Errorf("%d stores are still connected", n)
	}
}
