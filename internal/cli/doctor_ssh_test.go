//go:build linux

package cli_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trireme/internal/clustertest"
	"trireme/internal/netns"
)

// sshServer starts sshd on a host, for root with a new key, and returns ssh's configuration for it.
func sshServer(t *testing.T, h *netns.Host) (config string) {
	t.Helper()
	for _, p := range []string{"ssh", "ssh-keygen", "/usr/sbin/sshd"} {
		clustertest.Program(t, p, "openssh-server")
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, name := range []string{"host", "user"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v: %s", err, out)
		}
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		clustertest.Skip(t, err.Error())
	}
	server := write("sshd_config", fmt.Sprintf("HostKey %s/host\nAuthorizedKeysFile %s/user.pub\nStrictModes no\nPermitRootLogin yes\nUsePAM no\nPidFile none\nListenAddress %s\n", dir, dir, h.Addr))
	ctx, cancel := context.WithCancel(context.Background())
	cmd := h.Command(ctx, "/usr/sbin/sshd", "-D", "-e", "-f", server)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		cmd.Wait()
	})
	return write("config", fmt.Sprintf("Host *\n  User root\n  IdentityFile %s/user\n  IdentitiesOnly yes\n  StrictHostKeyChecking no\n  UserKnownHostsFile %s/known\n  LogLevel ERROR\n", dir, dir))
}

// TestDoctorSSH: doctor --hosts starts the check on the other hosts over ssh, with a secret of its own.
func TestDoctorSSH(t *testing.T) {
	needFirewall(t)
	m := netns.New(t, 2)
	config := sshServer(t, m.Hosts[1])
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	run := func(hosts string, more ...string) (int, string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := m.Hosts[0].Command(ctx, exe, append([]string{"doctor", "--hosts", hosts, "--launcher_args", "-F " + config, "--dir", t.TempDir(), "--timeout", "10s"}, more...)...)
		b, _ := c.CombinedOutput() // the exit code has the error
		return c.ProcessState.ExitCode(), string(b)
	}
	var code int
	var out string
	for try := range 50 { // until sshd listens
		if code, out = run("node0,node1"); code == 0 || try > 3 && !strings.Contains(out, "ssh") {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if code != 0 || !strings.Contains(out, "2 hosts, 2 of 2 directions connect") || strings.Count(out, "directions connect") != 1 {
		t.Fatalf("code %d\n%s", code, out)
	}
	if code, out := run("node0,node1", "--json"); code != 0 || !strings.Contains(out, `{"schema":"trireme.preflight/1","state":"`) {
		t.Errorf("code %d\n%s", code, out)
	}
	if code, out := run("node0,10.77.0.9"); code != 3 || !strings.Contains(out, "problem  ssh: host 10.77.0.9: ssh failed or lost its connection") {
		t.Errorf("code %d\n%s", code, out)
	}
	if code, out := run("10.77.0.9,node1"); code != 3 || strings.Count(out, "problem  ssh: ") != 1 || !strings.Contains(out, "problem  ssh: host 10.77.0.9") {
		t.Errorf("code %d\n%s", code, out)
	}
	if code, out := run(""); code != 2 || !strings.Contains(out, "--hosts: no hosts\ntry: --hosts n0,n1") {
		t.Errorf("code %d\n%s", code, out)
	}
	if code, out := run("node0"); code != 2 || !strings.Contains(out, "needs two hosts or more") {
		t.Errorf("code %d\n%s", code, out)
	}
	if err := iptables(m.Hosts[0], "-A INPUT -p tcp --syn -j DROP"); err != nil {
		t.Fatal(err)
	}
	if code, out := run("node0,node1", "--timeout", "3s"); code != 3 || !strings.Contains(out, "node1 cannot reach 10.77.0.1:29400 (no answer): a firewall drops the packets") {
		t.Errorf("code %d\n%s", code, out)
	}
}
