package natsstore

import (
	"net"
	"testing"
	"time"

	"trireme/internal/cluster/store"
	"trireme/internal/cluster/store/storetest"
)

const testKey = "0123456789abcdef0123456789abcdef"

// endpoints returns n addresses on loopback that are free.
func endpoints(t *testing.T, n int) (all []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all
}

func testConfig(t *testing.T, n int) Config {
	return Config{Endpoints: endpoints(t, n), Key: []byte(testKey)}
}

func serve(t *testing.T, cfg Config, i int) *Server {
	t.Helper()
	s, err := Serve(t.Context(), cfg, i, cfg.Endpoints[i])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func open(t *testing.T, cfg Config) store.Store {
	t.Helper()
	s, err := Connect(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOneServer(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	storetest.Run(t, func(t *testing.T) storetest.Setup {
		cfg := testConfig(t, 1)
		start := time.Now()
		serve(t, cfg, 0)
		t.Logf("the server starts in %v", time.Since(start))
		return storetest.Setup{
			Open:  func(t *testing.T) store.Store { return open(t, cfg) },
			TTL:   400 * time.Millisecond,
			Slack: 2 * time.Second,
			Apart: true,
		}
	})
}

func TestThreeServers(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	cfg := testConfig(t, 3)
	start := time.Now()
	for i := range 3 {
		serve(t, cfg, i)
	}
	first := open(t, cfg)
	defer first.Close()
	t.Logf("three servers answer after %v", time.Since(start))
	storetest.Run(t, func(t *testing.T) storetest.Setup {
		deleteAll(t, cfg)
		return storetest.Setup{
			Open:  func(t *testing.T) store.Store { return open(t, cfg) },
			TTL:   time.Second,
			Slack: 3 * time.Second,
		}
	})
}

// deleteAll deletes all keys.
func deleteAll(t *testing.T, cfg Config) {
	t.Helper()
	s := open(t, cfg)
	defer s.Close()
	all, err := store.List(t.Context(), s, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if err := s.Delete(t.Context(), e.Key, e.Revision); err != nil {
			t.Fatal(err)
		}
	}
}
