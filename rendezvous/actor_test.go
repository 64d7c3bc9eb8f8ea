package rendezvous

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const roleVar = "RENDEZVOUS_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

// play runs a rank in a child process. It prints "here" when it is ready to be disturbed, and finally its
// result.
func play(role string) int {
	switch role {
	case "burn":
		for n := new(atomic.Uint64); ; {
			n.Add(1)
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
		case "idle": // outside of calls
			fmt.Println("here")
			<-s.Done()
			err = s.Err()
		case "await":
			fmt.Println("here")
			_, err = s.Await(ctx, "never", []byte(strconv.Itoa(env.Rank)))
			for ; err == nil; _, err = s.Await(ctx, "never", nil) {
				time.Sleep(time.Millisecond)
			}
		case "get":
			fmt.Println("here")
			_, err = s.KeyValue("pjrt/0/").Get("never", time.Hour)
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

// strain delays a rank: garbage collection, page faults, fsync, computation on every CPU.
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
	for end := time.Now().Add(d); ; {
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
		over, err := s.Await(ctx, "round", []byte(strconv.FormatBool(time.Now().After(end))))
		if err != nil || string(over[0]) == "true" { // rank 0's clock decides
			return err
		}
	}
}

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
		t.Fatalf("pid %d prints nothing within %v", a.cmd.Process.Pid, within)
		return ""
	}
}
