package tcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"trireme/collective"
	"trireme/collective/collectivetest"
	"trireme/collective/shm"
	"trireme/internal/secureconn"
)

var secret = bytes.Repeat([]byte{7}, 32)

const layoutEnv = "TRIREME_TCPTEST_HOSTS" // of child processes: the sizes of their hosts

func TestMain(m *testing.M) {
	collectivetest.Child(func(ctx context.Context, cfg collective.Config, rank, size int, x collective.Bootstrap) (collective.World, error) {
		var hosts []int
		for _, f := range strings.Fields(os.Getenv(layoutEnv)) {
			n, _ := strconv.Atoi(f)
			hosts = append(hosts, n)
		}
		return Open(ctx, onHosts(Config{Config: cfg, Rank: rank, Size: size, Bootstrap: x, Secret: secret, Connections: 2}, hosts))
	})
	goleak.VerifyTestMain(m)
}

// onHosts assigns a rank to hosts of the given sizes, in the order of ranks; ranks beyond are alone.
func onHosts(c Config, sizes []int) Config {
	if sizes == nil {
		return c
	}
	rest := c.Rank
	for _, n := range sizes {
		if rest < n {
			break
		}
		rest -= n
		c.Node++
	}
	if c.Node == len(sizes) {
		c.Node += rest
	}
	c.Local = func(ctx context.Context, ranks []int, failure *collective.FailureOnce, failed func(*collective.Failure)) (collective.Transport, error) {
		return shm.Connect(ctx, shm.Config{Config: c.Config, Rank: c.Rank, Size: c.Size, Bootstrap: c.Bootstrap, Ranks: ranks, ArenaBytes: 1 << 28}, failure, failed)
	}
	return c
}

// worlds returns a maker of worlds: set changes the configuration of each rank.
func worlds(set func(c Config) Config) collectivetest.Make {
	return func(t *testing.T, n int, cfg collective.Config) []collective.World {
		t.Helper()
		ws, errs := make([]collective.World, n), make([]error, n)
		x := collectivetest.NewBootstrap(n)
		var wg sync.WaitGroup
		for r := range n {
			wg.Go(func() {
				ws[r], errs[r] = Open(context.Background(), set(Config{Config: cfg, Rank: r, Size: n, Bootstrap: x.Rank(r), Secret: secret}))
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		return ws
	}
}

// TestSuite runs the suite with each algorithm, protection and layout of hosts.
func TestSuite(t *testing.T) {
	for _, c := range []struct {
		name   string
		mode   Mode
		direct int // collective.Config.MaxDirect
		conns  int
		hosts  []int // sizes
		run    func(*testing.T, collectivetest.Make)
	}{
		{"direct", Plain, 8, 1, nil, collectivetest.RunOperations},
		{"direct encrypted", Encrypt, 8, 3, nil, collectivetest.Run},
		{"chain", Plain, 1, 1, nil, collectivetest.Run},
		{"chain signed", Sign, 1, 2, nil, collectivetest.RunOperations},
		{"hosts 2+2", Plain, 8, 1, []int{2, 2}, collectivetest.RunOperations},
		{"hosts 3+1", Encrypt, 8, 2, []int{3, 1}, collectivetest.Run},
		{"hosts 1+2+2 ring", Plain, 1, 3, []int{1, 2, 2}, collectivetest.RunOperations},
	} {
		t.Run(c.name, func(t *testing.T) {
			mk := worlds(func(r Config) Config {
				r.Mode, r.MaxDirect, r.Connections = c.mode, c.direct, c.conns
				return onHosts(r, c.hosts)
			})
			c.run(t, mk)
			t.Run("spans", func(t *testing.T) { collectivetest.RunSpans(t, mk, c.direct > 1) })
		})
	}
}

func TestProcesses(t *testing.T) {
	t.Run("ranks", func(t *testing.T) { collectivetest.RunProcesses(t) })
	t.Run("hosts", func(t *testing.T) {
		t.Setenv(layoutEnv, "2 1")
		collectivetest.RunProcesses(t)
	})
}

// TestRandomLayouts: operations on random hosts, sizes and connections have the bits of a plain loop.
func TestRandomLayouts(t *testing.T) {
	collectivetest.Random(t, 12, func(t *testing.T, hosts []int, direct, conns int) []collective.World {
		n := 0
		for _, h := range hosts {
			n += h
		}
		return worlds(func(r Config) Config {
			r.Mode, r.MaxDirect, r.Connections = Plain, direct, conns
			return onHosts(r, hosts)
		})(t, n, collective.Config{})
	})
}

// TestPlacement: ranks of a host that are not adjacent share no memory, and the bits are the same.
func TestPlacement(t *testing.T) {
	collectivetest.RunOperations(t, worlds(func(r Config) Config {
		r.Mode = Plain
		host := r.Rank % 2
		r = onHosts(r, []int{})
		r.Node = host
		return r
	}))
}

// TestStrangers: connections of another job, or of ranks that do not exist are refused and
// do not block a real one.
func TestStrangers(t *testing.T) {
	conf := secureconn.Config{Key: secret}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	d, err := newInbox(ctx, "127.0.0.1", 0, 2, conf)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	addr := d.l.Addr().String()
	h := hello{from: 1, to: 0, size: 2, group: 3}
	if _, err := secureconn.Dial(ctx, addr, secureconn.Config{Key: bytes.Repeat([]byte{8}, 32)}, h.encode()); !errors.Is(err, secureconn.ErrStranger) {
		t.Errorf("another job: %v", err)
	}
	for _, bad := range []hello{{from: 0, to: 0, size: 2}, {from: 1, to: 0, size: 3}, {from: 2, to: 1, size: 3}, {from: 1, to: 0, size: 2, stream: 99}} {
		var refused *secureconn.Refused
		if _, err := secureconn.Dial(ctx, addr, conf, bad.encode()); !errors.As(err, &refused) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	g, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.Write(bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 8))
	c, err := d.dial(ctx, addr, h)
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
	if err := good.Validate(); err != nil || good.Host != "127.0.0.1" || good.Timeout != time.Minute || good.Connections < 1 {
		t.Errorf("%+v: %v", good, err)
	}
	for i, change := range []func(c *Config){
		func(c *Config) { c.Rank = 2 }, func(c *Config) { c.Bootstrap = nil }, func(c *Config) { c.Secret = secret[:31] },
		func(c *Config) { c.Host = "0.0.0.0" }, func(c *Config) { c.Timeout = -1 }, func(c *Config) { c.Connections = 9 }, func(c *Config) { c.Node = -1 },
	} {
		bad := good
		if change(&bad); bad.Validate() == nil {
			t.Errorf("case %d is valid: %+v", i, bad)
		}
	}
}

// TestAbsentRank: a rank that never connects is named.
func TestAbsentRank(t *testing.T) {
	x := collectivetest.NewBootstrap(2)
	go func() {
		_, _ = x.Rank(1).AllGather(context.Background(), "tcp/address", address{listen: "127.0.0.1:1", connections: 1}.encode())
	}()
	_, err := Open(context.Background(), Config{Config: collective.Config{Timeout: 200 * time.Millisecond}, Size: 2, Bootstrap: x.Rank(0), Secret: secret})
	if err == nil || !strings.Contains(err.Error(), "connect to rank 1") {
		t.Errorf("error %v, want one that names rank 1", err)
	}
}

// TestHosts: which ranks share memory.
func TestHosts(t *testing.T) {
	for _, c := range []struct {
		hosts []uint32 // of the group's ranks
		want  string
	}{
		{[]uint32{0, 0, 1, 1}, "[[0 1] [2 3]]"}, {[]uint32{1, 0, 0}, "[[0] [1 2]]"}, {[]uint32{4, 4}, "[[0 1]]"},
		{[]uint32{0, 1, 2}, "[]"}, {[]uint32{0, 1, 0, 1}, "[]"}, {[]uint32{0, 0, 1, 0}, "[]"},
	} {
		tr := &transport{local: noTransport{}}
		var ranks []int
		for r, h := range c.hosts {
			tr.addrs = append(tr.addrs, address{host: h})
			ranks = append(ranks, r)
		}
		if hosts, _ := tr.hosts(ranks, 0); fmt.Sprint(hosts) != c.want {
			t.Errorf("ranks on hosts %v share memory as %v, want %s", c.hosts, hosts, c.want)
		}
	}
}

type noTransport struct{ collective.Transport }

func FuzzHello(f *testing.F) {
	f.Add(hello{from: 1, size: 2, group: control}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHello(b)
		if err == nil && !bytes.Equal(h.encode(), b) {
			t.Errorf("%v became %v", b, h.encode())
		}
	})
}

func FuzzAddress(f *testing.F) {
	f.Add(address{listen: "10.0.0.1:29500", host: 3, connections: 4, name: "node3"}.encode())
	f.Add([]byte{0, 0, 0, 0, 1, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decodeAddress(b)
		if err == nil && len(a.name) < 256 && !bytes.Equal(a.encode(), b) {
			t.Errorf("%v became %v", b, a.encode())
		}
	})
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte{msgBye, 0, 0})
	f.Add([]byte{msgFailure, 3, 0, 1, 2, 3})
	f.Add(append([]byte{msgAsk, askBytes, 0}, make([]byte, askBytes)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, m, err := readMessage(bytes.NewReader(b), make([]byte, maxMessage))
		if err == nil && (kind < msgFailure || kind > msgAnswer || len(m) != len(b[3:][:len(m)])) {
			t.Errorf("%v gave %d %v", b, kind, m)
		}
		if err == nil && kind == msgFailure {
			_, _ = collective.DecodeFailure(m)
		}
	})
}
