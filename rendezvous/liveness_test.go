package rendezvous

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var loadFor = flag.Duration("load", 3*time.Second, "how long TestNoFalseAlarm loads the machine")

// roleVar makes the test's own program a rank, in the mode that it names.
const roleVar = "RENDEZVOUS_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

// play is a rank as a process of its own. It says "here" when it is where it will be disturbed, and
// at the end what it ended with.
func play(role string) int {
	switch role {
	case "burn":
		for {
		}
	case "steal": // another user
		b, err := userSecretIn(os.Getenv("RENDEZVOUS_TEST_DIR"))
		fmt.Printf("%x %v\n", b, err)
		return 0
	}
	env, err := Read(os.LookupEnv)
	if err != nil {
		fmt.Println("read:", err)
		return 2
	}
	ctx := context.Background()
	if role == "join" {
		time.AfterFunc(400*time.Millisecond, func() { fmt.Println("here") })
	}
	s, err := Join(ctx, env, Config{Timeout: 30 * time.Second})
	if err == nil {
		switch role {
		case "idle": // apart from every call
			fmt.Println("here")
			<-s.Done()
			err = s.Err()
		case "await":
			fmt.Println("here")
			_, err = s.Await(ctx, "never", []byte(strconv.Itoa(env.Rank)))
			for ; err == nil; _, err = s.Await(ctx, "never", nil) {
				time.Sleep(time.Millisecond)
			}
		case "load":
			fmt.Println("here")
			err = strain(ctx, s)
		}
		if err != nil {
			s.Abort(err, 0)
		}
		s.Close()
	}
	fmt.Println("end:", err)
	return 0
}

// strain does what makes a rank late: garbage, page faults, fsync, a kernel on every processor.
func strain(ctx context.Context, s *Store) error {
	d, err := time.ParseDuration(os.Getenv("RENDEZVOUS_TEST_LOAD"))
	if err != nil {
		return err
	}
	f, err := os.CreateTemp("", "strain")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 * runtime.NumCPU() {
		wg.Go(func() {
			x := 1.0
			for {
				select {
				case <-stop:
					return
				default:
				}
				for range 1 << 16 {
					x = x*1.0000001 + 1e-9
				}
				_ = x
			}
		})
	}
	defer wg.Wait()
	defer close(stop)
	for end := time.Now().Add(d); time.Now().Before(end); {
		b := make([]byte, 8<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		if _, err := f.WriteAt(b[:1<<20], 0); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		runtime.GC()
		if _, err := s.Await(ctx, "round", nil); err != nil {
			return err
		}
	}
	_, err = s.Await(ctx, "over", nil)
	return err
}

// actor is a rank that runs as a process.
type actor struct {
	cmd   *exec.Cmd
	lines chan string
}

func stage(t *testing.T, role string, envs []Env, more ...string) []*actor {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var as []*actor
	for _, e := range envs {
		a := &actor{cmd: exec.Command(exe), lines: make(chan string, 16)}
		a.cmd.Env = append(append(os.Environ(), e.Variables()...), roleVar+"="+role)
		a.cmd.Env = append(a.cmd.Env, more...)
		a.cmd.Stderr = os.Stderr
		out, err := a.cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := a.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			a.cmd.Process.Kill()
			for range a.lines {
			}
			a.cmd.Wait()
		})
		go func() {
			defer close(a.lines)
			for s := bufio.NewScanner(out); s.Scan(); {
				a.lines <- s.Text()
			}
		}()
		as = append(as, a)
	}
	return as
}

func (a *actor) next(t *testing.T, within time.Duration) string {
	t.Helper()
	select {
	case l := <-a.lines:
		return l
	case <-time.After(within):
		t.Fatalf("pid %d says nothing within %v", a.cmd.Process.Pid, within)
		return ""
	}
}

// A rank that is stopped, or killed, is named by every other within a second, wherever the ranks
// are, and whichever it is.
func TestStoppedRank(t *testing.T) {
	if space() == "" {
		t.Skip("processes cannot be looked at on this system")
	}
	t.Setenv("TMPDIR", t.TempDir())
	for _, role := range []string{"join", "idle", "await"} {
		for _, n := range []int{2, 3} {
			for victim := range n {
				for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
					t.Run(fmt.Sprintf("%s/%d of %d/%v", role, victim, n, sig), func(t *testing.T) {
						t.Parallel()
						envs := world(t, n)
						for i := range envs {
							envs[i].RunID = "stopped"
						}
						if role == "join" { // one is missing, so that the others wait
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
							// A busy machine is late; unloaded it takes 0.6 to 0.7 s.
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

// Four busy processes a processor, and ranks that collect garbage, fault pages in and wait for the
// disk: nobody is taken for stopped.
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

// elsewhere is a process that cannot be looked at from here.
var elsewhere = process{pid: 7, space: "another kernel", host: "node7"}

// Across machines silence counts, in either direction.
func TestSilentRank(t *testing.T) {
	envs := world(t, 2)
	key, _ := envs[1].Key("store")
	errs := make(chan error, 1)
	began := time.Now()
	go func() {
		_, err := Join(t.Context(), Env{WorldSize: 3, LocalWorldSize: 3, MasterPort: envs[0].MasterPort, RunID: envs[0].RunID, Secret: envs[0].Secret}, Config{})
		errs <- err
	}()
	ch, err := dial(t.Context(), candidates("127.0.0.1", envs[1].MasterPort), key, hello{1, 3, elsewhere}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	if err := <-errs; !errors.Is(err, ErrLost) || err.Error() != "rank 1 (pid 7 on node7) does not answer for 1.0 s" {
		t.Error(err)
	}
	t.Log("rank 1 named after", time.Since(began).Round(time.Millisecond))
}

func TestSilentStore(t *testing.T) {
	envs := world(t, 2)
	key, _ := envs[1].Key("store")
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(envs[0].MasterPort)))
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
		if _, _, err := greetClient(c, key, elsewhere); err != nil {
			t.Error(err)
		}
		io.Copy(io.Discard, c)
	})
	_, err = Join(t.Context(), envs[1], Config{Heartbeat: 200 * time.Millisecond})
	if !errors.Is(err, ErrLost) || !strings.HasPrefix(err.Error(), "rank 0 (pid 7 on node7) does not answer for 0.2 s") || blame(err) != 0 {
		t.Error(err)
	}
}

// A process that runs is late, not lost, until the time-out.
func TestSilentButRunning(t *testing.T) {
	p := newPulse(1, thisProcess(), Config{Timeout: 3 * time.Second, Heartbeat: time.Second})
	if !p.who.here() {
		t.Skip("processes cannot be looked at on this system")
	}
	for i := range 29 {
		if f := p.tick(); f != nil {
			t.Fatalf("tick %d: %v", i, f)
		}
	}
	if f := p.tick(); f == nil || !strings.Contains(f.Text, "does not answer for 3.0 s") {
		t.Error(f)
	}
}

// Who waits says for whom from the first second on, and ends at once when its context does.
func TestWaitingIsTold(t *testing.T) {
	envs := world(t, 3)
	var mu sync.Mutex
	var told []string
	note := func(who int) func(string) {
		return func(s string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("%d: %s", who, s))
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { Join(ctx, envs[1], Config{Note: note(1)}) })
	time.Sleep(1300 * time.Millisecond)
	wg.Go(func() { Join(ctx, envs[0], Config{Note: note(0)}) })
	time.Sleep(1500 * time.Millisecond)
	began := time.Now()
	cancel(errors.New("interrupted"))
	wg.Wait()
	if took := time.Since(began); took > time.Second {
		t.Errorf("ended %v after its context", took)
	}
	at := fmt.Sprintf(" of 3 at 127.0.0.1:%d", envs[0].MasterPort)
	for _, want := range []string{"1: waiting for rank 0" + at, "0: waiting for rank 2" + at, "1: waiting for rank 2" + at} {
		if n := strings.Count(strings.Join(told, "\n")+"\n", want+"\n"); n != 1 {
			t.Errorf("%d times %q in %q", n, want, told)
		}
	}
}

// A barrier tells for whom it waits, however long its time-out is, and whoever is told may take time.
func TestAwait(t *testing.T) {
	told, read := make(chan string, 8), make(chan struct{})
	stores, errs := joinAll(t.Context(), world(t, 2), Config{Timeout: 300 * time.Millisecond, Note: func(s string) {
		told <- s
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
	if got, want := <-told, fmt.Sprintf("waiting for rank 1 (pid %d on ", os.Getpid()); !strings.HasPrefix(got, want) {
		t.Error(got)
	}
	if _, err := stores[1].Await(t.Context(), "k", nil); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// Without a secret a stranger who knows all that is public is not admitted, and disturbs nobody.
func TestStrangerOnLoopback(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	envs := world(t, 2)
	for i := range envs {
		envs[i].Secret = nil
	}
	done := make(chan error, 1)
	var first *Store
	go func() {
		var err error
		first, err = Join(t.Context(), envs[0], Config{})
		done <- err
	}()
	public, err := envs[1].Key("store") // made of the job's id alone
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if ch, err := dial(ctx, candidates("127.0.0.1", envs[0].MasterPort), public, hello{1, 2, thisProcess()}, func(string) {}); err == nil {
		ch.Close()
		t.Error("a stranger was admitted as rank 1")
	} else if !strings.Contains(err.Error(), "another program or job answers") {
		t.Error(err)
	}
	second, err := Join(t.Context(), envs[1], Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	a, _ := first.Key("p")
	if b, _ := second.Key("p"); !bytes.Equal(a, b) || bytes.Equal(a, public) {
		t.Error("the ranks' keys differ, or are public")
	}
	closeAll([]*Store{first, second})
}

// Another user of the machine reads no key, and can put none in its place.
func TestAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can act as another user")
	}
	base, err := os.MkdirTemp("", "another")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	os.Chmod(base, 0o777|os.ModeSticky) // as /tmp
	exe := filepath.Join(base, "exe")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(self); err != nil || os.WriteFile(exe, b, 0o755) != nil {
		t.Fatal(err)
	}
	steal := func(dir string) string {
		c := exec.Command(exe)
		c.Env = append(os.Environ(), roleVar+"=steal", "RENDEZVOUS_TEST_DIR="+dir)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatal(err, string(out))
		}
		return string(out)
	}
	ours := filepath.Join(base, "ours")
	if _, err := userSecretIn(ours); err != nil {
		t.Fatal(err)
	}
	if said := steal(ours); !strings.HasPrefix(said, " ") || !strings.Contains(said, "permission denied") {
		t.Error(said)
	}
	theirs := filepath.Join(base, "theirs") // made before us, where we would look
	if said := steal(theirs); !strings.Contains(said, "<nil>") {
		t.Fatal(said)
	}
	if b, err := userSecretIn(theirs); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("%x, %v", b, err)
	}
}

func TestUserSecret(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "d")
	var wg sync.WaitGroup
	all := make([][]byte, 16)
	for i := range all { // made once, however many ask at first
		wg.Go(func() {
			var err error
			if all[i], err = userSecretIn(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, b := range all {
		if len(b) != userKeySize || !bytes.Equal(b, all[0]) {
			t.Fatalf("%x, %x", b, all[0])
		}
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Error(names)
	}
	key := filepath.Join(dir, userKeyName)
	if st, err := os.Stat(key); err != nil || st.Mode().Perm() != 0o600 {
		t.Error(st, err)
	}
	for name, spoil := range map[string]func(){
		"key others can read":   func() { os.Chmod(key, 0o640) },
		"directory others read": func() { os.Chmod(dir, 0o750) },
		"short key":             func() { os.WriteFile(key, []byte("short"), 0o600) },
		"link to another file": func() {
			os.Remove(key)
			other := filepath.Join(base, "other")
			os.WriteFile(other, make([]byte, userKeySize), 0o600)
			os.Symlink(other, key)
		},
		"FIFO": func() { os.Remove(key); syscall.Mkfifo(key, 0o600) },
		"directory of another user": func() {
			if os.Getuid() == 0 {
				os.Chown(dir, 65534, 65534)
			} else {
				os.Chmod(dir, 0o777)
			}
		},
	} {
		os.RemoveAll(dir)
		if _, err := userSecretIn(dir); err != nil {
			t.Fatal(err)
		}
		spoil()
		if b, err := userSecretIn(dir); err == nil {
			t.Errorf("%s: %x", name, b)
		}
	}
}
