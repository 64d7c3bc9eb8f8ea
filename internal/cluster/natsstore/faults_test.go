package natsstore

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"trireme/internal/cluster/store"
	"trireme/internal/cluster/store/storetest"
	"trireme/internal/flock"
)

var faults = flag.Int("faults", 1, "number of servers that TestServerKilled kills")

// TestMain runs a server instead of the tests in the processes that serveProcess starts.
func TestMain(m *testing.M) {
	if os.Getenv("NATSSTORE_SERVER") == "" {
		os.Exit(m.Run())
	}
	i, _ := strconv.Atoi(os.Getenv("NATSSTORE_SERVER"))
	cfg := Config{Endpoints: strings.Split(os.Getenv("NATSSTORE_ENDPOINTS"), ","), Key: []byte(testKey)}
	s, err := Serve(context.Background(), cfg, i, cfg.Endpoints[i])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("serves")
	io.Copy(io.Discard, os.Stdin) // until the test ends
	s.Close()
	os.Exit(0)
}

// serveProcess starts a server in a process of its own.
func serveProcess(t *testing.T, cfg Config, i int) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "NATSSTORE_SERVER="+strconv.Itoa(i), "NATSSTORE_ENDPOINTS="+strings.Join(cfg.Endpoints, ","))
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); c.Process.Kill(); c.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "serves\n" {
		t.Fatalf("server %d: %q, %v", i, line, err)
	}
	return c
}

// TestServerKilled kills servers of three while clients change a key: first the leader, later ones at random.
// Each returns without its state before the next one is killed. All calls agree with the model, the watch has
// each change once, a lease survives, and the lease of an owner that ends is deleted.
func TestServerKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short waits for no elections")
	}
	t.Setenv("TMPDIR", t.TempDir())
	cfg := testConfig(t, 3)
	servers := make([]*exec.Cmd, 3)
	for i := range servers {
		servers[i] = serveProcess(t, cfg, i)
	}
	var all []store.Store
	for range 4 {
		c := open(t, cfg)
		defer c.Close()
		all = append(all, c)
	}
	owner := open(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Duration(*faults)*40*time.Second)
	defer cancel()
	survives, err := all[0].Lease(ctx, "hosts/survives", []byte("x"), ReplicatedTTL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := owner.Lease(ctx, "hosts/ends", nil, 2*time.Second); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range *faults {
		victim := rng.IntN(3)
		if n == 0 {
			info, err := all[0].(*client).stream.Info(ctx)
			if err != nil {
				t.Fatal(err)
			}
			victim, _ = strconv.Atoi(strings.TrimPrefix(info.Cluster.Leader, "endpoint-"))
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(time.Second)
			servers[victim].Process.Kill()
			servers[victim].Wait()
			if n == 0 {
				owner.Close()
			}
		})
		storetest.Contend(t, "round"+strconv.Itoa(n), 40, 100*time.Millisecond, all[1], all...)
		wg.Wait()
		servers[victim] = serveProcess(t, cfg, victim)
		waitReplicas(ctx, t, all[0].(*client))
		t.Logf("server %d was killed and is back", victim)
	}
	if survives.Err() != nil {
		t.Errorf("the lease: %v", survives.Err())
	}
	if e, err := all[2].Get(ctx, "hosts/survives"); err != nil || string(e.Value) != "x" {
		t.Errorf("the key of the lease: %v, %v", e, err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if _, err = all[2].Get(ctx, "hosts/ends"); errors.Is(err, store.ErrNotFound) || time.Now().After(end) {
			break
		}
	}
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the key of the owner that ended: %v", err)
	}
}

// waitReplicas waits until all three servers have all messages.
func waitReplicas(ctx context.Context, t *testing.T, c *client) {
	t.Helper()
	for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		info, err := c.stream.Info(ctx)
		if err != nil || info.Cluster == nil || info.Cluster.Leader == "" {
			continue
		}
		current := 1
		for _, r := range info.Cluster.Replicas {
			if r.Current {
				current++
			}
		}
		if current == 3 {
			return
		}
	}
	t.Fatal("the replicas do not catch up")
}

// proxy forwards connections until they are cut.
type proxy struct {
	l  net.Listener
	to string

	mu    sync.Mutex
	conns []net.Conn
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, to: to}
	t.Cleanup(func() { l.Close(); p.cut() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			go io.Copy(in, out)
			go io.Copy(out, in)
		}
	}()
	return p
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// TestConnectionCut cuts the connections of clients, and of their watch, while they change a key.
func TestConnectionCut(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	cfg := testConfig(t, 1)
	serve(t, cfg, 0)
	var clients []store.Store
	var proxies []*proxy
	for range 3 {
		p := newProxy(t, cfg.Endpoints[0])
		proxies = append(proxies, p)
		c := open(t, Config{Endpoints: []string{p.l.Addr().String()}, Key: cfg.Key})
		defer c.Close()
		clients = append(clients, c)
	}
	l, err := clients[0].Lease(t.Context(), "hosts/x", nil, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(70 * time.Millisecond):
				proxies[i%3].cut()
			}
		}
	})
	storetest.Contend(t, "cut", 80, 20*time.Millisecond, clients[0], clients...)
	close(stop)
	wg.Wait()
	if l.Err() != nil {
		t.Errorf("the lease: %v", l.Err())
	}
}

// TestStopped stops a server of one for longer than the ttl, as a loaded machine does: nothing is deleted that
// its owner could not renew meanwhile, unless the owner has given it up.
func TestStopped(t *testing.T) {
	r := &reaper{due: map[string]deadline{"s.x": {at: time.Unix(10, 0)}}}
	if ended := r.ended(time.Unix(12, 0), 5*time.Second); len(ended) != 0 {
		t.Errorf("after a stop of 5 seconds: %v", ended)
	}
	if ended := r.ended(time.Unix(14, 0), tick); len(ended) != 0 {
		t.Errorf("before the end of the ttl and the stop: %v", ended)
	}
	if ended := r.ended(time.Unix(16, 0), tick); len(ended) != 1 {
		t.Errorf("after the ttl: %v", ended)
	}
}

// TestStrangers connects to the ports of a server without the key: NATS answers none of them.
func TestStrangers(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	cfg := testConfig(t, 3)
	s := serve(t, cfg, 0)
	addrs := []string{s.Addr().String(), s.nats.ClusterAddr().String(), s.nats.Addr().String()}
	for _, l := range s.routes {
		addrs = append(addrs, l.Addr().String())
	}
	for _, addr := range addrs {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "CONNECT {\"verbose\":true}\r\nPING\r\n")
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		answer, _ := io.ReadAll(c)
		c.Close()
		if text := string(answer); strings.Contains(text, "INFO") || strings.Contains(text, "PONG") || strings.Contains(text, "-ERR") {
			t.Errorf("%s answers a stranger: %q", addr, text)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	cfg := testConfig(t, 1)
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := Connect(short, cfg, nil)
	if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), cfg.Endpoints[0]) || !strings.Contains(err.Error(), "try: ") {
		t.Errorf("without a server: %v", err)
	}
	t.Log(err)
	serve(t, cfg, 0)
	other := cfg
	other.Key = []byte(strings.Repeat("x", 32))
	start := time.Now()
	_, err = Connect(t.Context(), other, nil)
	if err == nil || !strings.Contains(err.Error(), " is the store of launchers with another secret or --rdzv-id. try: ") || time.Since(start) > 2*strange {
		t.Errorf("with another key, after %v: %v", time.Since(start), err)
	}
	t.Log(err)
	_, err = Serve(t.Context(), cfg, 0, cfg.Endpoints[0])
	if err == nil || !strings.Contains(err.Error(), "try: ") {
		t.Errorf("a second server on the port: %v", err)
	}
	t.Log(err)
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), directoryPattern)); len(left) != 1 {
		t.Errorf("directories %q, want that of the server", left)
	}
}

// TestUnavailable ends the only server: calls end after the time-out, with an error that says where.
func TestUnavailable(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	cfg := testConfig(t, 1)
	cfg.Timeout = 300 * time.Millisecond
	s := serve(t, cfg, 0)
	c := open(t, cfg)
	defer c.Close()
	l, err := c.Lease(t.Context(), "x", nil, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := c.Get(t.Context(), "x"); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), cfg.Endpoints[0]) {
		t.Errorf("Get: %v", err)
	} else {
		t.Log(err)
	}
	select {
	case <-l.Lost():
		if !errors.Is(l.Err(), store.ErrLeaseLost) || !errors.Is(l.Err(), store.ErrUnavailable) {
			t.Errorf("Err: %v", l.Err())
		}
	case <-time.After(5 * time.Second):
		t.Error("the owner does not notice that its lease ended")
	}
}

// TestDirectories checks that a server removes the directories of servers that were killed, and no others.
func TestDirectories(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	old := time.Now().Add(-time.Hour)
	mkdir := func(name string) string {
		dir := filepath.Join(os.TempDir(), name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	killed, running, fresh := mkdir("trireme-store-1"), mkdir("trireme-store-2"), mkdir("trireme-store-3")
	lock, held, err := flock.TryLock(filepath.Join(running, "lock"), 0o600)
	if err != nil || !held {
		t.Fatal(err)
	}
	defer lock.Close()
	for _, dir := range []string{killed, running} {
		if err := os.Chtimes(dir, old, old); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t, testConfig(t, 1), 0)
	for dir, want := range map[string]bool{killed: false, running: true, fresh: true, s.dir.path: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s exists: %v, want %v", dir, err == nil, want)
		}
	}
	if st, err := os.Stat(s.dir.path); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%s: %v, %v", s.dir.path, st, err)
	}
	s.Close()
	if _, err := os.Stat(s.dir.path); err == nil {
		t.Errorf("%s exists after Close", s.dir.path)
	}
}

func TestSubjects(t *testing.T) {
	for _, key := range []string{"a", "a/b.c/d=e", "*/>", "A-_~", "!/$JS"} {
		if got, err := keyOf(subject(key)); err != nil || got != key {
			t.Errorf("%q: %q is %q, %v", key, subject(key), got, err)
		}
	}
}

func FuzzKeyOf(f *testing.F) {
	f.Add("s.a.b=2Ec")
	f.Fuzz(func(t *testing.T, s string) {
		if key, err := keyOf(s); err == nil && store.CheckKey(key) == nil {
			if again, err := keyOf(subject(key)); err != nil || again != key {
				t.Errorf("%q is %q, then %q, %v", s, key, again, err)
			}
		}
	})
}

// TestLateReaper starts the reaper of a server when keys and leases exist, as after the return of a server: it
// reads the leases.
func TestLateReaper(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	cfg := testConfig(t, 1)
	s := serve(t, cfg, 0)
	c := open(t, cfg)
	defer c.Close()
	for _, value := range []string{"1", "2", "3"} {
		if _, err := store.Set(t.Context(), c, "a", []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	l, err := c.Lease(t.Context(), "hosts/x", nil, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Update(t.Context(), []byte("2")); err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithCancel(t.Context())
	r := startReaper(late, cfg, s)
	defer func() { cancel(); r.wait() }()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		r.mu.Lock()
		n := len(r.due)
		r.mu.Unlock()
		if n == 1 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the reaper has %d leases, want 1", n)
		}
	}
}
