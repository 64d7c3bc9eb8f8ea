package rendezvous

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"trireme/internal/secureconn"
)

func freePort(t testing.TB) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func world(t testing.TB, n int) []Env {
	envs := make([]Env, n)
	port := freePort(t)
	for r := range envs {
		envs[r] = Env{Rank: r, WorldSize: n, LocalRank: r, LocalWorldSize: n, GroupWorldSize: 1,
			MasterAddr: "127.0.0.1", MasterPort: port, RunID: t.Name(), Launched: true, Secret: []byte("0123456789abcdef")}
	}
	return envs
}

// joinAll joins the given ranks and returns their stores and errors, in order.
func joinAll(ctx context.Context, envs []Env, cfg Config) ([]*Store, []error) {
	stores, errs := make([]*Store, len(envs)), make([]error, len(envs))
	var wg sync.WaitGroup
	for i, e := range envs {
		wg.Go(func() { stores[i], errs[i] = Join(ctx, e, cfg) })
	}
	wg.Wait()
	return stores, errs
}

func mustJoin(t testing.TB, n int) []*Store {
	t.Helper()
	stores, errs := joinAll(t.Context(), world(t, n), Config{Timeout: 20 * time.Second})
	for r, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
	return stores
}

func closeAll(stores []*Store) {
	var wg sync.WaitGroup
	for _, s := range stores {
		if s != nil {
			wg.Go(func() { s.Close() })
		}
	}
	wg.Wait()
}

func TestStore(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 8} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			stores := mustJoin(t, n)
			defer closeAll(stores)
			ctx := t.Context()
			var wg sync.WaitGroup
			for _, s := range stores {
				wg.Go(func() {
					for round := range 20 { // reuse the key
						got, err := s.AllGather(ctx, "k", fmt.Appendf(nil, "%d/%d", round, s.Rank()))
						if err != nil {
							t.Errorf("rank %d: %v", s.Rank(), err)
							return
						}
						for r, v := range got {
							if want := fmt.Sprintf("%d/%d", round, r); string(v) != want {
								t.Errorf("rank %d: value %d is %q, want %q", s.Rank(), r, v, want)
							}
						}
					}
					if _, err := s.Add(ctx, "n", int64(s.Rank()+1)); err != nil {
						t.Error(err)
					}
					if err := s.Barrier(ctx, "added"); err != nil {
						t.Error(err)
					}
					if v, err := s.Get(ctx, "n"); err != nil || string(v) != strconv.Itoa(n*(n+1)/2) {
						t.Errorf("sum is %q, %v", v, err)
					}
					if s.Rank() == n-1 {
						time.Sleep(5 * time.Millisecond)
						if err := s.Set(ctx, "late", []byte("v")); err != nil {
							t.Error(err)
						}
					}
					if v, err := s.Get(ctx, "late"); err != nil || string(v) != "v" {
						t.Errorf("late is %q, %v", v, err)
					}
				})
			}
			wg.Wait()
		})
	}
}

func TestLargeValue(t *testing.T) {
	stores := mustJoin(t, 2)
	defer closeAll(stores)
	big := make([]byte, 3<<20)
	big[len(big)-1] = 7
	if err := stores[0].Set(t.Context(), "big", big); err != nil {
		t.Fatal(err)
	}
	if v, err := stores[1].Get(t.Context(), "big"); err != nil || len(v) != len(big) || v[len(v)-1] != 7 {
		t.Fatalf("%d bytes, %v", len(v), err)
	}
	if err := stores[1].Set(t.Context(), "big", make([]byte, maxValue+1)); err == nil {
		t.Fatal("a value over the limit was accepted")
	}
}

func TestMissingRanksAreNamed(t *testing.T) {
	envs := world(t, 4)
	began := time.Now()
	_, errs := joinAll(t.Context(), envs[:2], Config{Timeout: 300 * time.Millisecond})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "ranks 2, 3 have not joined at 127.0.0.1:") || !strings.Contains(err.Error(), "2 of 4 ranks joined") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestLateRankIsNamed(t *testing.T) {
	stores := mustJoin(t, 3)
	defer closeAll(stores)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := stores[0].AllGather(ctx, "handles", nil)
	if err == nil || !strings.Contains(err.Error(), `ranks 1, 2 have not reached "handles"`) {
		t.Fatal(err)
	}
	<-ctx.Done()
	if _, err = stores[1].Get(ctx, "nothing"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err = stores[1].Get(ctx, "nothing"); err == nil || !strings.Contains(err.Error(), `no rank has set "nothing"`) {
		t.Fatal(err)
	}
}

func TestNoStore(t *testing.T) {
	_, err := Join(t.Context(), world(t, 2)[1], Config{Timeout: 100 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "rank 1 cannot reach rank 0 at 127.0.0.1:") || !strings.Contains(err.Error(), "refused") {
		t.Fatal(err)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, errs := joinAll(ctx, world(t, 3)[:2], Config{})
	for _, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// A rank whose connection breaks is reported to all others at once, in any call: long before a heartbeat is missed.
func TestLostRank(t *testing.T) {
	for _, victim := range []int{2, 0} {
		t.Run(strconv.Itoa(victim), func(t *testing.T) {
			stores, errs := joinAll(t.Context(), world(t, 4), Config{Timeout: 20 * time.Second, Heartbeat: 20 * time.Second})
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			defer closeAll(stores)
			var wg sync.WaitGroup
			want := fmt.Sprintf("rank %d (pid %d on ", victim, os.Getpid())
			for r, s := range stores {
				if r == victim {
					continue
				}
				wg.Go(func() {
					if _, err := s.AllGather(t.Context(), "never", nil); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), want) || culpritOf(err) != victim {
						t.Errorf("rank %d: %v", r, err)
					}
					<-s.Done()
					if err := s.Err(); !errors.Is(err, ErrLost) {
						t.Errorf("rank %d: %v", r, err)
					}
				})
			}
			time.Sleep(20 * time.Millisecond)
			began := time.Now()
			if victim == 0 { // as if its process were killed: all its sockets close
				srv := stores[0].server
				srv.mu.Lock()
				for c := range srv.open {
					c.NetConn().(*net.TCPConn).SetLinger(0)
					c.Close()
				}
				srv.mu.Unlock()
			} else {
				stores[victim].ch.Close()
			}
			wg.Wait()
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("detected after %v", took)
			}
		})
	}
}

// A rank that dies after it joined fails the others, even if they wait for another rank.
func TestLostWhileJoining(t *testing.T) {
	envs := world(t, 3)
	key, _ := envs[1].Key("store")
	errs := make(chan error, 1)
	go func() {
		_, err := Join(t.Context(), envs[0], Config{})
		errs <- err
	}()
	ch, err := dial(t.Context(), candidates("127.0.0.1", envs[1].MasterPort), secureconn.Config{Key: key}, hello{1, 3}, thisProcess(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	ch.Close()
	if err := <-errs; !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "is lost: its connection closed") || culpritOf(err) != 1 {
		t.Fatal(err)
	}
}

func TestAbort(t *testing.T) {
	stores := mustJoin(t, 3)
	defer closeAll(stores)
	stores[1].Abort(errors.New("out of oars"), 2)
	for r, s := range stores {
		<-s.Done()
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "rank 1 stopped: out of oars") || err.(*Failure).Code != 2 || culpritOf(err) >= 0 {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// A rank that closes its store is no failure, also rank 0.
func TestOrderlyLeave(t *testing.T) {
	stores := mustJoin(t, 3)
	stores[1].Close()
	if _, err := stores[2].AllGather(t.Context(), "k", nil); err == nil || !strings.Contains(err.Error(), `rank 1 left before "k"`) {
		t.Fatal(err)
	}
	stores[0].server.close(0)
	time.Sleep(20 * time.Millisecond)
	select {
	case <-stores[2].Done():
		t.Fatal("Done is closed:", stores[2].Err())
	default:
	}
	if err := stores[2].Set(t.Context(), "k", nil); err == nil || !strings.Contains(err.Error(), "rank 0 has left") {
		t.Fatal(err)
	}
	closeAll(stores)
}

func TestRefusals(t *testing.T) {
	envs := world(t, 2)
	for name, c := range map[string]struct {
		change func(*Env)
		want   string
	}{
		"world":   {func(e *Env) { e.WorldSize, e.LocalWorldSize = 3, 3 }, "rank 1 has WORLD_SIZE=3, rank 0 has 2"},
		"secret":  {func(e *Env) { e.Secret = []byte("another secret..") }, "another program or job answers"},
		"job":     {func(e *Env) { e.RunID = "other" }, "another program or job answers"},
		"attempt": {func(e *Env) { e.RestartCount = 1 }, "another program or job answers"},
	} {
		t.Run(name, func(t *testing.T) {
			two := []Env{envs[0], envs[1]}
			c.change(&two[1])
			ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
			defer cancel()
			_, errs := joinAll(ctx, two, Config{})
			if errs[0] == nil || errs[1] == nil || !strings.Contains(errs[1].Error(), c.want) {
				t.Fatal(errs)
			}
		})
	}
	t.Run("twice", func(t *testing.T) {
		three := world(t, 3)
		three[2].Rank = 1
		_, errs := joinAll(t.Context(), three, Config{Timeout: 300 * time.Millisecond})
		if s := fmt.Sprint(errs); !strings.Contains(s, "rank 1 joined twice") {
			t.Fatal(s)
		}
	})
}

// Other programs on the ports: a silent one (as torchrun's agent) and one that sends.
func TestForeignListeners(t *testing.T) {
	var envs []Env
	var ls []net.Listener
	for try := 0; len(ls) < 2; try++ {
		if try == 20 {
			t.Skip("no two adjacent free ports")
		}
		envs = world(t, 3)
		for _, l := range ls {
			l.Close()
		}
		ls = nil
		for i := range 2 {
			if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(envs[0].MasterPort+i))); err == nil {
				ls = append(ls, l)
			}
		}
	}
	var wg sync.WaitGroup
	for i, l := range ls {
		wg.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				wg.Go(func() {
					defer c.Close()
					if i == 1 {
						fmt.Fprintf(c, "%s", strings.Repeat("HTTP/1.1 400 Bad Request\r\n", 4))
					}
					io.Copy(io.Discard, c)
				})
			}
		})
	}
	stores, errs := joinAll(t.Context(), envs, Config{Timeout: 10 * time.Second})
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	closeAll(stores)
	for _, l := range ls {
		l.Close()
	}
	wg.Wait()
}

// Silent or invalid clients block no rank.
func TestStrangers(t *testing.T) {
	envs := world(t, 2)
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(envs[0].MasterPort))
	done := make(chan []error)
	go func() {
		s, errs := joinAll(t.Context(), envs[:1], Config{})
		closeAll(s)
		done <- errs
	}()
	for range 50 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		defer c.Close()
		c.Write(make([]byte, 4096))
	}
	s, err := Join(t.Context(), envs[1], Config{})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if errs := <-done; errs[0] != nil {
		t.Fatal(errs)
	}
}

func TestListenHost(t *testing.T) {
	e := Env{WorldSize: 2, LocalWorldSize: 1, GroupWorldSize: 2, MasterAddr: "192.0.2.1", MasterPort: 29500}
	if _, err := listenHost(t.Context(), e); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "need a job secret") {
		t.Error(err)
	}
	e.Secret = []byte("0123456789abcdef")
	if a, err := listenHost(t.Context(), e); err != nil || a != "192.0.2.1" {
		t.Error(a, err)
	}
	e.MasterAddr = "127.0.1.1"
	if _, err := listenHost(t.Context(), e); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "other machines cannot reach") {
		t.Error(err)
	}
	e.MasterAddr, e.Loopback = "127.0.0.1", true // two launchers on one machine
	if a, err := listenHost(t.Context(), e); err != nil || a != "127.0.0.1" {
		t.Error(a, err)
	}
	e.MasterAddr, e.Secret, e.Insecure = "192.0.2.1", nil, true
	if a, err := listenHost(t.Context(), e); err != nil || a != "192.0.2.1" {
		t.Error(a, err)
	}
	e.LocalWorldSize = 2
	if a, err := listenHost(t.Context(), e); err != nil || a != "127.0.0.1" {
		t.Error(a, err)
	}
}

func TestSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	os.WriteFile(path, []byte("sixteen or more bytes"), 0o600)
	vars := map[string]string{SecretFileVar: path}
	lookup := func(k string) (string, bool) { v, ok := vars[k]; return v, ok }
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o644, 0o666} {
		os.Chmod(path, mode)
		if _, err := ReadSecret(lookup); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %#o: %v", mode, err)
		}
	}
	os.Chmod(path, 0o600)
	if b, err := ReadSecret(lookup); err != nil || string(b) != "sixteen or more bytes" {
		t.Errorf("%q %v", b, err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	vars[SecretFDVar] = strconv.Itoa(int(f.Fd()))
	for range 2 { // the descriptor stays readable
		if b, err := ReadSecret(lookup); err != nil || len(b) != 21 {
			t.Errorf("%q %v", b, err)
		}
	}
	vars[SecretFDVar] = "9999"
	if _, err := ReadSecret(lookup); err == nil {
		t.Error("a closed descriptor was read")
	}
}

// Close may be called concurrently and repeatedly.
func TestCloseTwice(t *testing.T) {
	stores, errs := joinAll(t.Context(), world(t, 2), Config{})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		for _, s := range stores {
			wg.Go(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
}

// Ranks on several hosts that may join without a secret: of this job and attempt only.
func TestInsecure(t *testing.T) {
	envs := world(t, 2)
	for i := range envs {
		envs[i].LocalWorldSize, envs[i].GroupWorldSize, envs[i].GroupRank = 1, 2, i
		envs[i].Secret, envs[i].Insecure, envs[i].Loopback = nil, true, true
	}
	for name, c := range map[string]struct {
		change func(*Env)
		want   string
	}{
		"same":    {func(e *Env) {}, ""},
		"attempt": {func(e *Env) { e.RestartCount = 1 }, "another program or job answers"},
		"secret":  {func(e *Env) { e.Secret = []byte("sixteen or more bytes") }, "another program or job answers"},
		"secure":  {func(e *Env) { e.Insecure = false }, "another program or job answers"},
	} {
		two := []Env{envs[0], envs[1]}
		c.change(&two[1])
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		stores, errs := joinAll(ctx, two, Config{})
		cancel()
		if c.want == "" && errors.Join(errs...) != nil || c.want != "" && !strings.Contains(fmt.Sprint(errs[1]), c.want) {
			t.Errorf("%s: %v", name, errs)
		}
		closeAll(stores)
	}
	envs[0].Secret, envs[1].Secret = []byte("sixteen or more bytes"), []byte("sixteen or more bytes")
	envs[1].Insecure = false
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	if _, errs := joinAll(ctx, envs, Config{}); !errors.Is(errs[1], ErrRefused) || !strings.Contains(errs[1].Error(), "mode encrypt there and plain here") {
		t.Errorf("one rank encrypts: %v", errs)
	}
}

// A rank of an older generation neither joins nor writes, and the world of the newer one goes on.
func TestOlderGeneration(t *testing.T) {
	envs := world(t, 3)
	for i := range envs {
		envs[i].RestartCount = 1
	}
	stores, errs := joinAll(t.Context(), envs, Config{})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	defer closeAll(stores)
	old := envs[1]
	old.RestartCount = 0
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if s, err := Connect(ctx, old, Config{}); err == nil {
		s.Close()
		t.Error("a rank of generation 0 joined generation 1")
	}
	a, _ := old.Key("collective/tcp")
	if b, _ := stores[1].Key("collective/tcp"); bytes.Equal(a, b) {
		t.Error("two generations have one key of data connections")
	}
	for _, s := range stores {
		go s.Barrier(t.Context(), "after")
	}
	if err := stores[0].Set(t.Context(), "k", []byte("v")); err != nil {
		t.Error(err)
	}
	select {
	case <-stores[0].Done():
		t.Error(stores[0].Err())
	case <-time.After(50 * time.Millisecond):
	}
}
