package cli_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"trireme/internal/clustertest"
)

// sshHosts starts an sshd on a loopback port, with keys and configuration in dir, as hosts n0 and n1. It returns
// the arguments of launch.
func sshHosts(t *testing.T, dir string) []string {
	t.Helper()
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		if sshd = "/usr/sbin/sshd"; exec.Command("test", "-x", sshd).Run() != nil {
			clustertest.Skip(t, "no sshd: OpenSSH's server is not installed")
		}
	}
	for _, name := range []string{"hostkey", "id"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			clustertest.Skip(t, fmt.Sprintf("ssh-keygen: %v: %s", err, out))
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	server := write("sshd_config", fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %s/hostkey\nAuthorizedKeysFile %s\nPasswordAuthentication no\nUsePAM no\nStrictModes no\nPidFile none\n",
		port, dir, write("authorized_keys", read("id.pub"))))
	config := write("config", fmt.Sprintf("Host n0 n1 stranger\n  HostName 127.0.0.1\n  Port %d\n  User %s\n  IdentityFile %s/id\n  IdentitiesOnly yes\n  UserKnownHostsFile %s\nHost n0 n1\n  HostKeyAlias node\n",
		port, me.Username, dir, write("known", "node "+read("hostkey.pub"))))
	write("hosts", "n0 slots=1\nn1 slots=2 # two workers\n")
	if os.Getuid() == 0 {
		os.MkdirAll("/run/sshd", 0o755) // of privilege separation
	}
	cmd, log := exec.Command(sshd, "-D", "-e", "-f", server), &output{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		clustertest.Skip(t, err.Error())
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			c.Close()
			break
		}
		if time.Since(began) > 5*time.Second {
			clustertest.Skip(t, "sshd does not listen: "+log.String())
		}
	}
	return []string{"launch", "--hostfile", "hosts", "--launcher_args=-F " + config, "--force_multi", "--master_port", strconv.Itoa(freePorts(t))}
}

// freePorts returns a port that is free, with the next one.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		next, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+1)))
		l.Close()
		if err == nil {
			next.Close()
			return port
		}
	}
	t.Fatal("no two free ports")
	return 0
}

// launched is a launcher that a test has started.
type launched struct {
	cmd      *exec.Cmd
	out, err *output
}

func startTrireme(t *testing.T, dir string, env []string, args ...string) *launched {
	t.Helper()
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	l := &launched{exec.CommandContext(ctx, exe, args...), &output{}, &output{}}
	l.cmd.Dir, l.cmd.Stdout, l.cmd.Stderr, l.cmd.WaitDelay = dir, l.out, l.err, 5*time.Second
	l.cmd.Env = append(os.Environ(), env...)
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return l
}

// waitFor waits until the output contains text n times.
func (l *launched) waitFor(t *testing.T, text string, n int) {
	t.Helper()
	for began := time.Now(); strings.Count(l.out.String(), text) < n; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatalf("no %q:\n%s%s", text, l.out, l.err)
		}
	}
}

// ends waits for the end, which has a code.
func (l *launched) ends(t *testing.T, code int) {
	t.Helper()
	l.cmd.Wait()
	if got := l.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, not %d:\n%s%s", got, code, l.out, l.err)
	}
}

// Hosts of a hostfile are started over ssh: their output has the host's name, the first failure ends the job, and
// the secret is on no command line.
func TestLaunchOverSSH(t *testing.T) {
	dir := t.TempDir()
	args := sshHosts(t, dir)
	with := func(more ...string) []string { return append(append([]string{}, args...), more...) }

	const secret = "a-secret-that-nobody-may-see"
	l := startTrireme(t, dir, []string{"TRIREME_JOB_SECRET=" + secret, "NCCL_DEBUG=WARN", "PRIVATE=1"}, with("--", "sh", "-c", "echo rank $RANK of $WORLD_SIZE in $PWD, $NCCL_DEBUG$PRIVATE; sleep 0.5")...)
	l.waitFor(t, "rank", 3)
	commandLines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range commandLines {
		if b, _ := os.ReadFile(name); strings.Contains(string(b), secret) {
			t.Errorf("%s has the secret: %q", name, b)
		}
	}
	l.ends(t, 0)
	for rank, host := range []string{"n0", "n1", "n1"} {
		if want := fmt.Sprintf("%s: rank %d of 3 in %s, WARN\n", host, rank, dir); !strings.Contains(l.out.String(), want) {
			t.Errorf("no %q:\n%s%s", want, l.out, l.err)
		}
	}

	l = startTrireme(t, dir, nil, with("--", "sh", "-c", "echo up; if [ $RANK = 2 ]; then sleep 0.3; echo no oars >&2; exit 7; fi; sleep 60")...)
	l.ends(t, 7)
	if e := l.err.String(); !strings.Contains(e, "n1: rank 2 on n1 exited with code 7") || strings.Contains(e, "n0: rank 2") {
		t.Error(e)
	}

	l = startTrireme(t, dir, nil, with("--include", "n1:1", "--", "sh", "-c", "echo devices $CUDA_VISIBLE_DEVICES of $WORLD_SIZE")...)
	l.ends(t, 0)
	if l.out.String() != "n1: devices 1 of 1\n" {
		t.Error(l.out, l.err)
	}
}

// The end of an ssh ends the job, on all hosts, and so does a signal to the launcher.
func TestLaunchWithoutSSH(t *testing.T) {
	dir := t.TempDir()
	args := sshHosts(t, dir)
	for _, c := range []struct {
		name string
		end  func(t *testing.T, l *launched)
		code int
		want string
	}{
		{"ssh killed", func(t *testing.T, l *launched) {
			for _, pid := range sshClients(l.cmd.Process.Pid) {
				syscall.Kill(pid, syscall.SIGKILL)
				return
			}
			t.Fatal("no ssh")
		}, 76, "ssh failed or lost its connection"},
		{"SIGTERM", func(t *testing.T, l *launched) { l.cmd.Process.Signal(syscall.SIGTERM) }, 143, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			args[len(args)-1] = strconv.Itoa(freePorts(t)) // the store of the last case may still wait for its hosts
			l := startTrireme(t, dir, nil, append(append([]string{}, args...), "--", "sh", "-c", "echo pid $$; sleep 300")...)
			l.waitFor(t, "pid", 3)
			c.end(t, l)
			l.ends(t, c.code)
			if !strings.Contains(l.err.String(), c.want) {
				t.Error(l.err)
			}
			for line := range strings.Lines(l.out.String()) {
				_, text, _ := strings.Cut(line, "pid ")
				pid, err := strconv.Atoi(strings.TrimSpace(text))
				if err != nil {
					t.Fatal(line)
				}
				for began := time.Now(); syscall.Kill(pid, 0) == nil; time.Sleep(20 * time.Millisecond) {
					if time.Since(began) > 10*time.Second {
						t.Errorf("worker %d still runs", pid)
						syscall.Kill(pid, syscall.SIGKILL)
						break
					}
				}
			}
		})
	}

	// A host whose key is unknown is refused, not trusted.
	if err := os.WriteFile(filepath.Join(dir, "strange"), []byte("stranger\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args[2] = "strange"
	l := startTrireme(t, dir, nil, append(args, "--", "true")...)
	l.ends(t, 76)
	if e := l.err.String(); !strings.Contains(e, "Host key verification failed") || !strings.Contains(e, "try: ssh stranger true") {
		t.Error(e)
	}
}

// sshClients returns the processes that a launcher has started.
func sshClients(pid int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, name := range files {
		b, _ := os.ReadFile(name)
		for word := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(word); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// Signals end a job while ssh waits for a host that does not answer.
func TestLaunchUnreachable(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"ssh": "#!/bin/sh\nexec sleep 300\n", "hosts": "localhost\nn1\n", "away": "n0\nn1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		hosts   string
		signals []syscall.Signal
		code    int
	}{
		{"hosts", []syscall.Signal{syscall.SIGTERM}, 143}, // the launcher here ends, and the other one is not there
		{"away", []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, 130},
	} {
		t.Run(c.hosts, func(t *testing.T) {
			t.Parallel()
			l := startTrireme(t, dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, "launch", "--hostfile", c.hosts, "--master_addr", "127.0.0.1", "--master_port", strconv.Itoa(freePorts(t)), "--", "sleep", "300")
			for began := time.Now(); len(sshClients(l.cmd.Process.Pid)) == 0; time.Sleep(20 * time.Millisecond) {
				if time.Since(began) > 10*time.Second {
					t.Fatal("no ssh")
				}
			}
			for _, s := range c.signals {
				l.cmd.Process.Signal(s)
				time.Sleep(200 * time.Millisecond) // two signals at once are one
			}
			l.ends(t, c.code)
		})
	}
}
