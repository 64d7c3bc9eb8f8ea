package rendezvous

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"trireme/flight"

	"trireme/internal/secureconn"
)

var loadFor = flag.Duration("load", 3*time.Second, "how long TestNoFalseAlarm loads the machine")

// Every rank names a stopped or killed rank within a second, in any call and for any rank.
func TestStoppedRank(t *testing.T) {
	if namespaces() == "" {
		t.Skip("processes cannot be looked at on this system")
	}
	t.Setenv("TMPDIR", t.TempDir())
	for _, role := range []string{"join", "idle", "await", "get"} {
		for _, n := range []int{2, 3} {
			for victim := range n {
				for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
					t.Run(fmt.Sprintf("%s/%d of %d/%v", role, victim, n, sig), func(t *testing.T) {
						t.Parallel()
						envs := world(t, n)
						for i := range envs {
							envs[i].RunID = "stopped"
						}
						if role == "join" { // one rank is missing: the others wait
							for i := range envs {
								envs[i].WorldSize, envs[i].LocalWorldSize = n+1, n+1
							}
						}
						as := stage(t, role, envs)
						for _, a := range as {
							if l := a.next(t, 20*time.Second); l != "here" {
								t.Fatal(l)
							}
						}
						time.Sleep(200 * time.Millisecond)
						began := time.Now()
						as[victim].cmd.Process.Signal(sig)
						for r, a := range as {
							if r == victim {
								continue
							}
							l := a.next(t, 20*time.Second)
							took := time.Since(began)
							want := fmt.Sprintf("end: rank %d (pid %d on ", victim, as[victim].cmd.Process.Pid)
							why := "is stopped"
							if sig == syscall.SIGKILL {
								why = "is lost: its connection closed"
							}
							if !strings.HasPrefix(l, want) || !strings.Contains(l, why) {
								t.Errorf("rank %d: %s", r, l)
							}
							// 0.6 to 0.7 s on an idle machine.
							if took > 5*time.Second {
								t.Errorf("rank %d ended after %v", r, took)
							}
							t.Logf("rank %d after %v: %s", r, took.Round(time.Millisecond), l)
						}
					})
				}
			}
		}
	}
}

// With four busy processes per CPU and ranks that collect garbage, fault pages and wait for the disk, no
// rank is declared lost.
func TestNoFalseAlarm(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 4 * runtime.NumCPU() {
		c := exec.Command(exe)
		c.Env = append(os.Environ(), roleVar+"=burn")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer c.Wait()
		defer c.Process.Kill()
	}
	envs := world(t, 3)
	for i := range envs {
		envs[i].RunID = "load"
	}
	as := stage(t, "load", envs, "RENDEZVOUS_TEST_LOAD="+loadFor.String())
	for _, a := range as {
		if l := a.next(t, time.Minute); l != "here" {
			t.Fatal(l)
		}
	}
	for r, a := range as {
		if l := a.next(t, *loadFor+2*time.Minute); l != "end: <nil>" {
			t.Errorf("rank %d: %s", r, l)
		}
	}
}

var elsewhere = process{pid: 7, namespace: "another kernel", host: "node7"}

// Across machines silence counts, in both directions.
func TestSilentRank(t *testing.T) {
	envs := world(t, 2)
	key, _ := envs[1].Key("store")
	errs := make(chan error, 1)
	began := time.Now()
	go func() {
		_, err := Join(t.Context(), Env{WorldSize: 3, LocalWorldSize: 3, MasterPort: envs[0].MasterPort, RunID: envs[0].RunID, Secret: envs[0].Secret}, Config{})
		errs <- err
	}()
	ch, err := dial(t.Context(), candidates("127.0.0.1", envs[1].MasterPort), secureconn.Config{Key: key}, hello{1, 3}, elsewhere, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	if err := <-errs; !errors.Is(err, ErrLost) || err.Error() != "rank 1 (pid 7 on node7) sent no heartbeat for 0.8 s (process stopped, or machine or network down)" {
		t.Error(err)
	}
	t.Log("rank 1 named after", time.Since(began).Round(time.Millisecond))
}

func TestSilentStore(t *testing.T) {
	envs := world(t, 2)
	key, _ := envs[1].Key("store")
	l, err := secureconn.Listen(t.Context(), net.JoinHostPort("127.0.0.1", strconv.Itoa(envs[0].MasterPort)), secureconn.Config{Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := newChannel(c, elsewhere); err != nil {
			t.Error(err)
		}
		io.Copy(io.Discard, c)
	})
	_, err = Join(t.Context(), envs[1], Config{Heartbeat: 200 * time.Millisecond})
	if !errors.Is(err, ErrLost) || !strings.HasPrefix(err.Error(), "rank 0 (pid 7 on node7) sent no heartbeat for 0.2 s") || culpritOf(err) != 0 {
		t.Error(err)
	}
}

// A running process is late, not lost, until the time-out.
func TestSilentButRunning(t *testing.T) {
	p := newWatchdog(1, thisProcess(), Config{Timeout: 3 * time.Second, Heartbeat: time.Second})
	if !p.process.here() {
		t.Skip("processes cannot be looked at on this system")
	}
	for i := range 29 {
		if f := p.tick(); f != nil {
			t.Fatalf("tick %d: %v", i, f)
		}
	}
	if f := p.tick(); f == nil || !strings.Contains(f.Text, "sent no heartbeat for 3.0 s (process runs, but is blocked or overloaded)") {
		t.Error(f)
	}
}

// A waiting rank says for which ranks after a second, and returns at once when its context is done.
func TestWaitNotices(t *testing.T) {
	envs := world(t, 3)
	var mu sync.Mutex
	var notices []string
	note := func(who int) func(string) {
		return func(s string) {
			mu.Lock()
			defer mu.Unlock()
			notices = append(notices, fmt.Sprintf("%d: %s", who, s))
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	var wg sync.WaitGroup
	at := fmt.Sprintf(" of 3 at 127.0.0.1:%d", envs[0].MasterPort)
	until := func(want ...string) {
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			mu.Lock()
			missing := slices.ContainsFunc(want, func(s string) bool { return !slices.Contains(notices, s+at) })
			mu.Unlock()
			if !missing {
				return
			}
		}
	}
	wg.Go(func() { Join(ctx, envs[1], Config{Note: note(1)}) })
	until("1: waiting for rank 0")
	wg.Go(func() { Join(ctx, envs[0], Config{Note: note(0)}) })
	until("0: waiting for rank 2", "1: waiting for rank 2")
	began := time.Now()
	cancel(errors.New("interrupted"))
	wg.Wait()
	if took := time.Since(began); took > 5*time.Second { // without the context it waits for minutes
		t.Errorf("ended %v after its context", took)
	}
	for _, want := range []string{"1: waiting for rank 0" + at, "0: waiting for rank 2" + at, "1: waiting for rank 2" + at} {
		if n := strings.Count(strings.Join(notices, "\n")+"\n", want+"\n"); n != 1 {
			t.Errorf("%d times %q in %q", n, want, notices)
		}
	}
}

// A barrier says for which ranks it waits, whatever its time-out, and Config.Note may block.
func TestAwait(t *testing.T) {
	notices, read := make(chan string, 8), make(chan struct{})
	stores, errs := joinAll(t.Context(), world(t, 2), Config{Timeout: 300 * time.Millisecond, Note: func(s string) {
		notices <- s
		<-read
	}})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	defer closeAll(stores)
	defer close(read)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := stores[0].Await(ctx, "k", nil); err != nil {
			t.Error(err)
		}
	})
	if got, want := <-notices, fmt.Sprintf("waiting for rank 1 (pid %d on ", os.Getpid()); !strings.HasPrefix(got, want) {
		t.Error(got)
	}
	if _, err := stores[1].Await(t.Context(), "k", nil); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// Ranks that wait for each other in different groups end within seconds, on every rank with the same text.
func TestHang(t *testing.T) {
	envs := world(t, 3)
	stores, groups := make([]*Store, len(envs)), make([]flight.Group, len(envs))
	var wg sync.WaitGroup
	for r, e := range envs {
		wg.Go(func() {
			rec := flight.New(flight.Identity{Rank: r, Size: len(envs), PID: os.Getpid(), Host: "n1"})
			name, ranks := "a", []int{0, 1}
			if r == 1 {
				name, ranks = "b", []int{0, 1, 2}
			}
			groups[r] = rec.Group(uint64(len(name)+int(name[0])), name, ranks)
			var err error
			if stores[r], err = Join(t.Context(), e, Config{Recorder: rec}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	defer closeAll(stores)
	began := time.Now()
	groups[0].Begin(flight.Op{Kind: "all_reduce", Tag: "step", Peer: -1})
	groups[1].Begin(flight.Op{Kind: "barrier", Tag: "save", Peer: -1})
	var text string
	for r, s := range stores {
		select {
		case <-s.Done():
		case <-time.After(20 * time.Second):
			t.Fatalf("rank %d: no failure", r)
		}
		var f *Failure
		if !errors.As(s.Err(), &f) || f.Rank != 0 || r > 0 && f.Text != text {
			t.Errorf("rank %d: %v, rank 0: %s", r, s.Err(), text)
		}
		text = f.Text
	}
	if !strings.HasPrefix(text, "hang: rank 0 (n1, pid ") || !strings.Contains(text, "barrier #0 (save) in group b, in which rank 1 waits for it: they wait for each other") {
		t.Error(text)
	}
	t.Logf("after %v: %s", time.Since(began), text)
}
