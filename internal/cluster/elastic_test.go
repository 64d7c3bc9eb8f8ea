package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"trireme/internal/cluster/store"
	"trireme/launch"
)

// launchHosts starts launchers of a job with one worker each on a memory store.
func launchHosts(t *testing.T, mode string, least, most, n int, set func(c *Config)) []*launcher {
	t.Helper()
	m := store.NewMemory(nil)
	var all []*launcher
	for i := range n {
		l := newLauncher(mode, i, 1, least, most)
		if set != nil {
			set(&l.cfg)
		}
		l.start(t.Context(), m)
		all = append(all, l)
		for c := m.Client(); ; time.Sleep(5 * time.Millisecond) { // they join in the order of their names
			hosts, err := store.List(t.Context(), c, "job/job/"+hostsPrefix)
			if err != nil {
				t.Fatal(err)
			}
			if len(hosts) > i || i == n-1 {
				c.Close()
				break
			}
		}
	}
	return all
}

// TestStopEverywhere: a signal to one launcher stops the workers of all.
func TestStopEverywhere(t *testing.T) {
	for mode, want := range map[string]int{"stop": launch.CodeStopped, "plain": launch.CodeTerminated} {
		all := launchHosts(t, mode, 2, 2, 2, func(c *Config) { c.MaxRestarts = 3 })
		for _, l := range all {
			l.out.waitFor(t, "ready", 1)
		}
		all[1].signals <- syscall.SIGTERM
		for _, l := range all {
			if code, err := l.wait(t); code != want || err != "" {
				t.Errorf("%s on %s: %d, %s: %s", mode, l.cfg.Name, code, err, l.out.String())
			}
		}
		if out := all[0].out.String(); !strings.Contains(out, "host n1 received SIGTERM: stopping") {
			t.Error(out)
		}
	}
}

// TestStopBeforeStart: a signal to one launcher of a job that waits for hosts ends all.
func TestStopBeforeStart(t *testing.T) {
	all := launchHosts(t, "plain", 3, 3, 2, nil)
	all[1].out.waitFor(t, "waiting for hosts", 1)
	all[1].signals <- syscall.SIGINT
	for _, l := range all {
		if code, err := l.wait(t); code != launch.CodeInterrupted || err != "" {
			t.Errorf("%s: %d, %s: %s", l.cfg.Name, code, err, l.out.String())
		}
	}
}

func TestKillEverywhere(t *testing.T) {
	all := launchHosts(t, "slow", 2, 2, 2, nil)
	for _, l := range all {
		l.out.waitFor(t, "ready", 1)
	}
	all[0].signals <- syscall.SIGINT
	for _, l := range all {
		l.out.waitFor(t, "stopping", 1)
	}
	all[0].signals <- syscall.SIGINT
	for _, l := range all {
		if code, _ := l.wait(t); code != launch.CodeInterrupted || !errors.Is(l.err, launch.ErrKilled) {
			t.Errorf("%s: %d, %v: %s", l.cfg.Name, code, l.err, l.out.String())
		}
	}
}

// TestRestartEverywhere: a failed worker restarts the workers of all hosts, as often as allowed.
func TestRestartEverywhere(t *testing.T) {
	for restarts, want := range map[int]int{2: 0, 1: 9} {
		all := launchHosts(t, "fails=2", 2, 2, 2, func(c *Config) { c.MaxRestarts = restarts })
		for _, l := range all {
			code, err := l.wait(t)
			if code != want || want == 0 && err != "" || want != 0 && err != "rank 1 on n1 exited with code 9 after T. 1 other rank stopped because of this. gave up after 1 restart" {
				t.Errorf("%d restarts, %s: %d, %s: %s", restarts, l.cfg.Name, code, err, l.out.String())
			}
			if !strings.Contains(l.out.String(), "restarting (1 of ") {
				t.Error(l.out.String())
			}
		}
	}
}

// TestLostHost: a job with a fixed number of hosts ends when one is lost.
func TestLostHost(t *testing.T) {
	all := launchHosts(t, "plain", 2, 2, 2, nil)
	for _, l := range all {
		l.out.waitFor(t, "ready", 1)
	}
	all[1].client.Cut(true)
	code, err := all[0].wait(t)
	if code != launch.CodePeerLost || !strings.HasPrefix(err, "host n1 with rank 1 is lost: ") {
		t.Errorf("%d, %s", code, err)
	}
	if code, err := all[1].wait(t); code != launch.CodePeerLost || !strings.HasPrefix(err, "no answer from the store for ") {
		t.Errorf("%d, %s", code, err)
	}
}

// TestElastic: a job continues without a host that is lost, and with it when it returns.
func TestElastic(t *testing.T) {
	all := launchHosts(t, "elastic", 1, 2, 2, nil)
	for _, l := range all {
		l.out.waitFor(t, "running 0 of 2", 1)
	}
	all[1].client.Cut(true)
	all[0].out.waitFor(t, "running 1 of 1", 1)
	all[1].client.Cut(false)
	for _, l := range all {
		if code, err := l.wait(t); code != 0 || err != "" {
			t.Errorf("%s: %d, %s: %s", l.cfg.Name, code, err, l.out.String())
		}
	}
	for _, want := range []string{
		"host n1 with rank 1 is lost: ", ". continuing with 1 host and 1 rank\n",
		"n1 joins the job: stopping to start again with it\n", "continuing with 2 hosts and 2 ranks\n", "running 2 of 2 after 2\n",
	} {
		if !strings.Contains(all[0].out.String(), want) {
			t.Errorf("no %q in %s", want, all[0].out.String())
		}
	}
}

// TestJoinTimeout: hosts that do not come are named by number.
func TestJoinTimeout(t *testing.T) {
	all := launchHosts(t, "plain", 3, 3, 2, func(c *Config) { c.Conf.JoinTimeout = 1500 * time.Millisecond })
	for _, l := range all {
		code, err := l.wait(t)
		if code != launch.CodePeerLost || !strings.HasPrefix(err, "2 of 3 hosts joined within 1.5s: n0, n1. try: ") {
			t.Errorf("%s: %d, %s", l.cfg.Name, code, err)
		}
		if !strings.Contains(l.out.String(), "n0, n1 joined the store, 1 of 3 missing") {
			t.Error(l.out.String())
		}
	}
}

// TestContradictions: a launcher with other values than the first is refused, and the job waits for another.
func TestContradictions(t *testing.T) {
	zero := 0
	for want, set := range map[string]func(c *Config){
		"--nnodes is 3 on host n1 and 2 on host n0":             func(c *Config) { c.MinHosts, c.MaxHosts = 3, 3 },
		"--node-rank is set on one of the hosts n0 and n1 only": func(c *Config) { c.NodeRank = nil },
		"--node-rank 0 is taken by host n0":                     func(c *Config) { c.NodeRank = &zero },
	} {
		m := store.NewMemory(nil)
		a, b := newLauncher("plain", 0, 1, 2, 2), newLauncher("plain", 1, 1, 2, 2)
		a.cfg.NodeRank, b.cfg.NodeRank = &zero, &zero
		set(&b.cfg)
		a.start(t.Context(), m)
		a.out.waitFor(t, "waiting for hosts", 1)
		b.start(t.Context(), m)
		if code, err := b.wait(t); code != launch.CodeUsage || err != want {
			t.Errorf("%d, %s: %s", code, err, want)
		}
		if !strings.Contains(want, "is taken") {
			a.out.waitFor(t, want+". it was refused", 1)
		}
		a.leave(errors.New("the end"))
		if code, err := a.wait(t); code != launch.CodeFailed || err != "the end" {
			t.Errorf("%d, %s", code, err)
		}
		if out := a.out.String(); strings.Contains(out, "has ranks") {
			t.Errorf("%s: %s", want, out)
		}
	}
}

// process starts a launcher as a process, which can be killed.
func (l *launcher) process(t *testing.T) *exec.Cmd {
	t.Helper()
	b, err := json.Marshal(l.cfg.Endpoints)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), fmt.Sprintf("%s=launcher=%s %d %d %s", modeVar, l.cfg.Name, l.cfg.MinHosts, l.cfg.MaxHosts, b))
	c.Stdout, c.Stderr = &l.out, &l.out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLauncherKilled kills launchers: another one, and the one that runs the store.
func TestLauncherKilled(t *testing.T) {
	for _, c := range []struct {
		kill         int
		least        int
		want, output string
	}{
		{1, 2, "host n1 with rank 1 is lost: its launcher ended, or host or network are down", ""},
		{0, 2, "the launcher on 127.0.0.1, which ran the job's store at ", ""},
		{0, 1, "the launcher on 127.0.0.1, which ran the job's store at ", ""},
		{1, 1, "", "running 1 of 1"},
	} {
		endpoint := fmt.Sprint("127.0.0.1:", freePorts(t))
		var all []*launcher
		var cmds []*exec.Cmd
		for i := range 2 {
			l := newLauncher("elastic", i, 1, c.least, 2)
			l.cfg.Endpoints = []string{endpoint}
			cmds = append(cmds, l.process(t))
			all = append(all, l)
			if i == 0 {
				l.out.waitFor(t, "waiting for hosts", 1)
			}
		}
		for _, l := range all {
			l.out.waitFor(t, "running 0 of 2", 1)
		}
		began := time.Now()
		cmds[c.kill].Process.Kill()
		cmds[c.kill].Wait()
		other := 1 - c.kill
		all[other].out.waitFor(t, c.want+c.output, 1)
		t.Logf("%+v: %v", c, time.Since(began).Round(10*time.Millisecond))
		if c.want == "" {
			cmds[other].Process.Signal(syscall.SIGTERM)
		}
		cmds[other].Wait()
		if code := cmds[other].ProcessState.ExitCode(); c.want != "" && code != launch.CodePeerLost || c.want == "" && code != launch.CodeStopped {
			t.Errorf("%+v: %d: %s", c, code, all[other].out.String())
		}
	}
}
