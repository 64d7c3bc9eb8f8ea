package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"trireme/internal/cluster/store"
	"trireme/launch"
	"trireme/rendezvous"
)

const modeVar = "CLUSTER_TEST_MODE"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVar); mode != "" {
		os.Exit(worker(mode))
	}
	goleak.VerifyTestMain(m)
}

// worker is a launched process. Rank 1 is the victim.
func worker(mode string) int {
	env, err := rendezvous.Read(os.LookupEnv)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	release, err := launch.ExitWithParent(os.LookupEnv, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer release()
	mode, arg, _ := strings.Cut(mode, "=")
	n, _ := strconv.Atoi(arg)
	victim := env.Rank == 1
	forever := make(chan struct{})
	switch mode {
	case "world":
		fmt.Printf("rank %d of %d, local %d of %d, host %d of %d, generation %d, port %v\n", env.Rank, env.WorldSize, env.LocalRank, env.LocalWorldSize, env.GroupRank, env.GroupWorldSize, env.RestartCount, env.MasterPort > 0)
	case "join":
		s, err := rendezvous.Join(context.Background(), env, rendezvous.Config{Timeout: 10 * time.Second})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer s.Close()
		all, err := s.AllGather(context.Background(), "who", []byte(strconv.Itoa(env.Rank)))
		if err != nil {
			return 7
		}
		fmt.Printf("all: %s\n", bytes.Join(all, []byte(" ")))
	case "fails": // in the first n generations
		if env.RestartCount >= n {
			fmt.Println("done in generation", env.RestartCount, "of", env.MaxRestarts)
			return 0
		}
		if victim {
			fmt.Fprintln(os.Stderr, "the last line")
			return 9
		}
		<-forever
	case "exits":
		if victim {
			return n
		}
		<-forever
	case "killed":
		if victim {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		<-forever
	case "stop":
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		fmt.Println("ready")
		<-signals
		if arg != "" {
			return n
		}
		return launch.CodeStopped
	case "slow": // to stop
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
		fmt.Println("ready")
		<-forever
	case "elastic": // until the world has two ranks again
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		fmt.Printf("running %d of %d after %d\n", env.RestartCount, env.WorldSize, env.FirstWorldSize)
		if env.RestartCount > 0 && env.WorldSize == env.FirstWorldSize {
			return 0
		}
		<-signals
		return launch.CodeStopped
	case "launcher":
		return launcherProcess(arg)
	case "plain":
		fmt.Println("ready")
		<-forever
	default:
		return 99
	}
	return 0
}

// launcherProcess is a launcher on an endpoint with workers of mode elastic.
func launcherProcess(arg string) int {
	c := newLauncher("elastic", 0, 1, 0, 0).cfg
	var endpoints string
	if _, err := fmt.Sscan(arg, &c.Name, &c.MinHosts, &c.MaxHosts, &endpoints); err != nil {
		panic(err)
	}
	if err := json.Unmarshal([]byte(endpoints), &c.Endpoints); err != nil {
		panic(err)
	}
	c.Conf.LastCall = 10 * time.Second
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM)
	c.Workers.Signals, c.Workers.Stdout, c.Workers.Stderr = signals, os.Stdout, os.Stderr
	code, err := Run(context.Background(), c)
	if err != nil {
		fmt.Println(err)
	}
	return code
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *buffer) waitFor(t *testing.T, s string, n int) {
	t.Helper()
	for range 2000 {
		if strings.Count(b.String(), s) >= n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("no %q in %q", s, b.String())
}

// launcher is a launcher of a test, on a host with its own name.
type launcher struct {
	cfg     Config
	out     buffer
	signals chan os.Signal
	client  *store.MemoryClient
	leave   context.CancelCauseFunc
	done    chan struct{}
	code    int
	err     error
}

// newLauncher returns a launcher of a job on least to most hosts.
func newLauncher(mode string, index, nproc, least, most int) *launcher {
	l := &launcher{signals: make(chan os.Signal, 8), done: make(chan struct{})}
	l.cfg = Config{MinHosts: least, MaxHosts: most, Name: "n" + strconv.Itoa(index), RunID: "job", Secret: []byte("sixteen letters!"), Endpoints: []string{"127.0.0.1"}}
	l.cfg.Workers = launch.Config{Nproc: nproc, Command: []string{os.Args[0]}, Env: append(os.Environ(), modeVar+"="+mode), Stdout: &l.out, Stderr: &l.out,
		Output: launch.Output{All: true}, Grace: 500 * time.Millisecond, Signals: l.signals}
	l.cfg.Conf = Conf{Lease: 500 * time.Millisecond, LastCall: 300 * time.Millisecond, JoinTimeout: 10 * time.Second, Close: time.Second}.withDefaults()
	return l
}

func (l *launcher) start(ctx context.Context, m *store.Memory) {
	ctx, l.leave = context.WithCancelCause(ctx)
	l.client = m.Client()
	d := &driver{cfg: l.cfg, events: make(chan event, 64), stderr: l.cfg.Workers.Stderr, began: time.Now(), link: &link{Store: l.client, addr: "127.0.0.1", name: "the store", close: func() {}}}
	go func() {
		defer close(l.done)
		l.code, l.err = d.run(ctx)
	}()
}

// wait returns the launcher's code and error, without times.
func (l *launcher) wait(t *testing.T) (int, string) {
	t.Helper()
	select {
	case <-l.done:
	case <-time.After(30 * time.Second):
		t.Fatalf("the launcher on %s did not end: %s", l.cfg.Name, l.out.String())
	}
	text := ""
	if l.err != nil {
		text = regexp.MustCompile(`after [0-9.]+m?s`).ReplaceAllString(l.err.Error(), "after T")
	}
	return l.code, text
}

func TestOneHost(t *testing.T) {
	var out buffer
	run := func(mode string, restarts int) (int, string) {
		l := newLauncher(mode, 0, 2, 1, 1)
		cfg := l.cfg
		cfg.Endpoints, cfg.Conf, cfg.MaxRestarts, cfg.Workers.Stdout, cfg.Workers.Stderr = nil, Conf{}, restarts, &out, &out
		code, err := Run(t.Context(), cfg)
		var f *launch.Failure
		if errors.As(err, &f) && f.Host != "" {
			t.Errorf("%s: the only host has a name: %v", mode, err)
		}
		if err == nil {
			return code, ""
		}
		return code, regexp.MustCompile(`after [0-9.]+m?s`).ReplaceAllString(err.Error(), "after T")
	}
	if code, err := run("world", 0); code != 0 || err != "" || strings.Count(out.String(), "of 2, local ") != 2 {
		t.Error(code, err, out.String())
	}
	if code, err := run("fails=2", 2); code != 0 || err != "" || !strings.Contains(out.String(), ". 1 other rank stopped because of this. restarting (2 of 2)\n") || !strings.Contains(out.String(), "done in generation 2 of 2") {
		t.Error(code, err, out.String())
	}
	if code, err := run("fails=2", 1); code != 9 || err != "rank 1 exited with code 9 after T. 1 other rank stopped because of this. gave up after 1 restart" {
		t.Error(code, err)
	}
	for _, want := range []int{launch.CodeUsage, launch.CodeNo, launch.CodeAuth} { // a retry would fail alike
		if code, err := run(fmt.Sprint("exits=", want), 5); code != want || strings.Contains(err, "restarts") {
			t.Errorf("%d: %d, %v", want, code, err)
		}
	}
}

// TestNoRestartAfterStop: workers that fail during a stop are not restarted.
func TestNoRestartAfterStop(t *testing.T) {
	l := newLauncher("stop=1", 0, 2, 1, 1)
	l.cfg.MaxRestarts = 3
	l.start(t.Context(), store.NewMemory(nil))
	l.out.waitFor(t, "ready", 2)
	l.signals <- syscall.SIGTERM
	if code, err := l.wait(t); code != 1 || err == "" || strings.Contains(l.out.String(), "restarting") {
		t.Errorf("%d, %v: %s", code, err, l.out.String())
	}
}

func TestTwoHosts(t *testing.T) {
	for _, c := range []struct {
		mode string
		code int
		err  string
	}{
		{"world", 0, ""},
		{"join", 0, ""},
		{"exits=5", 5, "rank 1 on n1 exited with code 5 after T. 2 other ranks stopped because of this"},
		{"killed", 137, "rank 1 on n1 was killed (signal 9) after T. 2 other ranks stopped because of this"},
	} {
		t.Run(c.mode, func(t *testing.T) {
			m := store.NewMemory(nil)
			a, b := newLauncher(c.mode, 0, 1, 2, 2), newLauncher(c.mode, 1, 2, 2, 2)
			zero, one := 0, 1
			a.cfg.NodeRank, b.cfg.NodeRank = &zero, &one
			b.start(t.Context(), m)
			a.start(t.Context(), m)
			for _, l := range []*launcher{a, b} {
				if code, err := l.wait(t); code != c.code || err != c.err {
					t.Errorf("%s: %d, %s: %s", l.cfg.Name, code, err, l.out.String())
				}
			}
			all := a.out.String() + b.out.String()
			if c.mode == "world" && (!strings.Contains(all, "rank 0 of 3, local 0 of 1, host 0 of 2, generation 0, port true") || !strings.Contains(all, "rank 2 of 3, local 1 of 2, host 1 of 2, generation 0, port true")) {
				t.Error(all)
			}
			if c.mode == "join" && !strings.Contains(all, "all: 0 1 2\n") {
				t.Error(all)
			}
		})
	}
}

// freePorts returns the first of two free ports, below those that the kernel gives to connections.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 100 {
		port, free := 20000+rand.IntN(10000), true
		for i := range 2 {
			l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port+i))
			if free = free && err == nil; err == nil {
				l.Close()
			}
		}
		if free {
			return port
		}
	}
	t.Fatal("no free ports")
	return 0
}

// TestLoopback runs two launchers on the built-in store, which one of them serves.
func TestLoopback(t *testing.T) {
	port := freePorts(t)
	for _, c := range []struct {
		name string
		set  func(l *launcher, i int)
	}{
		{"endpoint", func(l *launcher, i int) { l.cfg.Endpoints = []string{fmt.Sprint("127.0.0.1:", port)} }},
		{"master_addr", func(l *launcher, i int) {
			l.cfg.Endpoints, l.cfg.MasterAddr, l.cfg.MasterPort, l.cfg.NodeRank = nil, "localhost", port, &i
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all []*launcher
			for i := range 2 {
				l := newLauncher("join", i, 1+i, 2, 2)
				l.cfg.Secret = nil
				c.set(l, i)
				all = append(all, l)
				go func() {
					defer close(l.done)
					l.code, l.err = Run(t.Context(), l.cfg)
				}()
			}
			for _, l := range all {
				if code, err := l.wait(t); code != 0 || err != "" {
					t.Errorf("%s: %d, %s: %s", l.cfg.Name, code, err, l.out.String())
				}
			}
			if text := all[0].out.String() + all[1].out.String(); !strings.Contains(text, "all: 0 1 2\n") {
				t.Error(text)
			}
		})
	}
}
