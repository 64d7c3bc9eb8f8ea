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
)

var secret = bytes.Repeat([]byte{7}, 32)

func TestMain(m *testing.M) {
	collectivetest.Child(func(ctx context.Context, cfg collective.Config, rank, size int, x collective.Bootstrap) (collective.World, error) {
		return Open(ctx, Config{Config: cfg, Rank: rank, Size: size, Bootstrap: x, Secret: secret})
	})
	goleak.VerifyTestMain(m)
}

func worlds(t *testing.T, n int, cfg collective.Config) []collective.World {
	t.Helper()
	ws, errs := make([]collective.World, n), make([]error, n)
	x := collectivetest.NewBootstrap(n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			ws[r], errs[r] = Open(context.Background(), Config{Config: cfg, Rank: r, Size: n, Bootstrap: x.Rank(r), Secret: secret})
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

func TestSuite(t *testing.T)     { collectivetest.Run(t, worlds) }
func TestProcesses(t *testing.T) { collectivetest.RunProcesses(t) }

// TestStrangers: connections without the secret, of another job, or with garbage are refused and do not
// block a real one.
func TestStrangers(t *testing.T) {
	key := jobKey(secret, "a")
	d, err := newAcceptor("127.0.0.1", 0, 2, key)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	addr := d.l.Addr().String()
	h := hello{from: 1, to: 0, size: 2, group: 3}
	for name, k := range map[string][]byte{"another job": jobKey(secret, "b"), "another secret": jobKey(bytes.Repeat([]byte{8}, 32), "a")} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := dialHandshake(c, k, h, time.Now().Add(time.Second)); err == nil {
			t.Errorf("%s was accepted", name)
		}
		c.Close()
	}
	for _, bad := range []hello{{from: 0, to: 0, size: 2}, {from: 1, to: 0, size: 3}, {from: 2, to: 1, size: 3}, {from: 1, to: 0, size: 2, conn: 9}} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := dialHandshake(c, key, bad, time.Now().Add(time.Second)); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
		c.Close()
	}
	g, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.Write(bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 8))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := dial(ctx, addr, key, h)
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
		{Size: 2, Bootstrap: x, Secret: secret[:8]}, {Size: 2, Bootstrap: x, Secret: secret, Host: "0.0.0.0"},
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

type fake struct {
	net.Conn
	in *bytes.Reader
}

func (f fake) Read(b []byte) (int, error)  { return f.in.Read(b) }
func (f fake) Write(b []byte) (int, error) { return len(b), nil }
func (f fake) SetDeadline(time.Time) error { return nil }

func FuzzAdmit(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{1}, 200))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := acceptHandshake(fake{in: bytes.NewReader(b)}, secret, func(hello) error { t.Error("an unauthenticated peer was accepted"); return nil })
		if err == nil {
			t.Error("an unauthenticated peer was accepted")
		}
	})
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
