package tcp

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"trireme/collective"
	"trireme/collective/collectivetest"
	"trireme/internal/secureconn"
)

var secret = bytes.Repeat([]byte{7}, 32)

func TestMain(m *testing.M) {
	collectivetest.Child(func(ctx context.Context, cfg collective.Config, rank, size int, x collective.Bootstrap) (collective.World, error) {
		return Open(ctx, Config{Config: cfg, Rank: rank, Size: size, Bootstrap: x, Secret: secret, Mode: Plain})
	})
	goleak.VerifyTestMain(m)
}

func worlds(t *testing.T, n int, cfg collective.Config) []collective.World {
	t.Helper()
	return open(t, n, cfg, Plain)
}

func open(t *testing.T, n int, cfg collective.Config, mode Mode) []collective.World {
	t.Helper()
	ws, errs := make([]collective.World, n), make([]error, n)
	x := collectivetest.NewBootstrap(n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			ws[r], errs[r] = Open(context.Background(), Config{Config: cfg, Rank: r, Size: n, Bootstrap: x.Rank(r), Secret: secret, Mode: mode})
		}()
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return ws
}

func TestSuite(t *testing.T) { collectivetest.Run(t, worlds) }
func TestSealed(t *testing.T) {
	collectivetest.Run(t, func(t *testing.T, n int, cfg collective.Config) []collective.World {
		return open(t, n, cfg, Encrypt)
	})
}
func TestProcesses(t *testing.T) { collectivetest.RunProcesses(t) }

// Connections without the secret, of another job, for another rank, or with garbage are refused and do not
// block a true one.
func TestStrangers(t *testing.T) {
	conf := secureconn.Config{Key: secret}
	d, err := newAcceptor(t.Context(), "127.0.0.1", 0, 2, conf)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	addr := d.l.Addr().String()
	h := hello{from: 1, to: 0, size: 2, group: 3}
	if _, err := secureconn.Dial(t.Context(), addr, secureconn.Config{Key: bytes.Repeat([]byte{8}, 32)}, h.encode()); err == nil {
		t.Error("another secret was accepted")
	}
	for _, bad := range []hello{{from: 0, to: 0, size: 2}, {from: 1, to: 0, size: 3}, {from: 2, to: 1, size: 3}, {from: 1, to: 0, size: 2, conn: 9}} {
		if _, err := dial(t.Context(), addr, conf, bad); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	g, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.Write(bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 8))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	c, err := dial(ctx, addr, conf, h)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in, err := d.take(ctx, connID{from: 1, group: 3})
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
}

func TestConfig(t *testing.T) {
	x := collectivetest.NewBootstrap(2).Rank(0)
	good := Config{Size: 2, Bootstrap: x, Secret: secret}
	if err := good.Validate(); err != nil || good.Host != "127.0.0.1" || good.Timeout != time.Minute {
		t.Errorf("%+v: %v", good, err)
	}
	for _, bad := range []Config{
		{Rank: 2, Size: 2, Bootstrap: x, Secret: secret}, {Size: 2, Secret: secret}, {Size: 2, Bootstrap: x},
		{Size: 2, Bootstrap: x, Secret: secret[:31]}, {Size: 2, Bootstrap: x, Secret: secret, Host: "0.0.0.0"},
		{Config: collective.Config{Timeout: -1}, Size: 2, Bootstrap: x, Secret: secret},
	} {
		if bad.Validate() == nil {
			t.Errorf("%+v is valid", bad)
		}
	}
}

// TestAbsentRank: a rank that never connects is named.
func TestAbsentRank(t *testing.T) {
	x := collectivetest.NewBootstrap(2)
	go func() { _, _ = x.Rank(1).AllGather(context.Background(), "tcp/address", []byte("127.0.0.1:1")) }()
	_, err := Open(context.Background(), Config{Config: collective.Config{Timeout: 200 * time.Millisecond}, Size: 2, Bootstrap: x.Rank(0), Secret: secret})
	if err == nil || !strings.Contains(err.Error(), "connect to rank 1") {
		t.Errorf("error %v, want one that names rank 1", err)
	}
}

func FuzzHello(f *testing.F) {
	f.Add(hello{from: 1, size: 2, group: control}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHello(b)
		if err == nil && !bytes.Equal(h.encode(), b) {
			t.Errorf("%v became %v", b, h.encode())
		}
	})
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte{msgBye, 0, 0})
	f.Add([]byte{msgFailure, 3, 0, 1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, m, err := readMessage(bytes.NewReader(b), make([]byte, maxMessage))
		if err == nil && (kind < msgFailure || kind > msgBye || len(m) != len(b[3:][:len(m)])) {
			t.Errorf("%v gave %d %v", b, kind, m)
		}
		if err == nil && kind == msgFailure {
			_, _ = collective.DecodeFailure(m)
		}
	})
}
