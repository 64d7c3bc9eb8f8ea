//go:build linux

package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"trireme/internal/clustertest"
	"trireme/internal/netns"
)

// checked is the result of doctor on one host.
type checked struct {
	code           int
	stdout, stderr string
	report         struct {
		Problems int
		Findings []struct{ Check, State, Text, Try string }
	}
}

func (c *checked) problems() (out []string) {
	for _, f := range c.report.Findings {
		if f.State == "problem" {
			out = append(out, f.Check)
		}
	}
	return out
}

// doctorOn runs doctor --json on hosts, concurrently. args adds arguments for a host.
func doctorOn(t *testing.T, hosts []*netns.Host, args func(i int) []string) []*checked {
	t.Helper()
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all := make([]*checked, len(hosts))
	var wg sync.WaitGroup
	for i, h := range hosts {
		c := h.Command(ctx, exe, append([]string{"doctor", "--json", "--nnodes", fmt.Sprint(len(hosts)), "--node_rank", fmt.Sprint(i), "--rdzv_endpoint", hosts[0].Addr + ":29400", "--dir", t.TempDir()}, args(i)...)...)
		c.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
		r := &checked{}
		all[i] = r
		wg.Go(func() {
			var out, errs bytes.Buffer
			c.Stdout, c.Stderr = &out, &errs
			err := c.Run()
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				r.code = exit.ExitCode()
			} else if err != nil {
				r.code = -1
			}
			r.stdout, r.stderr = out.String(), errs.String()
			_ = json.Unmarshal(out.Bytes(), &r.report) // an error leaves no findings
		})
	}
	wg.Wait()
	return all
}

// TestDoctorHosts: three hosts check each other through a network with one defect at a time.
func TestDoctorHosts(t *testing.T) {
	needFirewall(t)
	secret := filepath.Join(t.TempDir(), "secret")
	other := filepath.Join(t.TempDir(), "other")
	for name, text := range map[string]string{secret: strings.Repeat("s", 32), other: strings.Repeat("t", 32)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	same := func(int) []string { return []string{"--secret_file", secret} }
	for _, d := range []struct {
		name         string
		spoil        func(a, b, c *netns.Host) error
		args         func(i int) []string
		host         int // whose report is checked
		check        string
		text, remedy string
		first        string // in the report of the first host
	}{
		{name: "healthy"},
		{
			name: "a firewall rejects one way",
			spoil: func(_, b, c *netns.Host) error {
				return iptables(c, "-A INPUT -s "+b.Addr+" -p tcp --syn -j REJECT --reject-with tcp-reset")
			},
			check: "network", text: "node1 (10.77.0.2) cannot reach node2 (10.77.0.3) (refused); node2 reaches node1: a firewall on node2", remedy: "allow TCP from 10.77.0.2 on node2",
		},
		{
			name: "a firewall drops one way",
			spoil: func(_, b, c *netns.Host) error {
				return iptables(c, "-A INPUT -s "+b.Addr+" -p tcp --syn -j DROP")
			},
			check: "network", text: "node1 (10.77.0.2) cannot reach node2 (10.77.0.3) (timed out); node2 reaches node1: a firewall on node2", remedy: "allow TCP from 10.77.0.2 on node2",
		},
		{
			name:  "no route",
			spoil: func(_, b, c *netns.Host) error { return b.Block(c) },
			check: "network", text: "node1 (10.77.0.2) has no route to node2 (10.77.0.3)", remedy: "ip route get 10.77.0.3 on node1",
		},
		{
			name: "a name on loopback",
			spoil: func(a, b, c *netns.Host) error {
				return b.SetFile("hosts", fmt.Sprintf("127.0.0.1 localhost\n%s node0\n%s node1\n127.0.1.1 node2\n", a.Addr, b.Addr))
			},
			check: "names", text: "node2 is 127.0.1.1 on node1, a loopback address: its address is 10.77.0.3", remedy: `the line "10.77.0.3 node2" in /etc/hosts of node1`,
		},
		{
			name:  "large packets lost",
			spoil: func(a, _, c *netns.Host) error { return errors.Join(a.SetMTU(9000), c.SetMTU(9000)) },
			check: "packets", text: "large packets from node0 (10.77.0.1) to node2 (10.77.0.3) are lost: messages of ", remedy: "mtu 1500 on node0",
			args: func(int) []string { return []string{"--secret_file", secret, "--timeout", "6s"} },
		},
		{
			name:  "a slow host",
			spoil: func(_, _, c *netns.Host) error { return c.Limit(40e6) },
			check: "bandwidth", text: "the links of node2 (10.77.0.3) are slow: from ", remedy: "ethtool",
		},
		{
			name: "another secret",
			args: func(i int) []string {
				return []string{"--secret_file", []string{secret, secret, other}[i], "--timeout", "3s"}
			},
			host: 2, check: "secret", text: "node2 has another secret than 10.77.0.1:29400", remedy: "copy the secret's file to node2",
		},
		{
			name:  "a host that is cut off",
			spoil: func(_, _, c *netns.Host) error { return c.Cut() },
			args:  func(int) []string { return []string{"--secret_file", secret, "--timeout", "3s"} },
			host:  2, check: "network", first: "the host with --node_rank 2 did not join at 10.77.0.1:29400 within 3s", text: " 10.77.0.1:29400", remedy: "ping 10.77.0.1",
		},
	} {
		t.Run(strings.ReplaceAll(d.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			m := netns.New(t, 3)
			if d.spoil != nil {
				if err := d.spoil(m.Hosts[0], m.Hosts[1], m.Hosts[2]); err != nil {
					t.Fatal(err)
				}
			}
			if d.args == nil {
				d.args = same
			}
			began := time.Now()
			all := doctorOn(t, m.Hosts, d.args)
			t.Logf("%v", time.Since(began).Round(time.Millisecond))
			r := all[d.host]
			if d.check == "" {
				for i, r := range all {
					if r.code != 0 || r.report.Problems != 0 || !strings.Contains(r.stdout, `"schema":"trireme.preflight/1"`) {
						t.Errorf("host %d: code %d\n%s%s", i, r.code, r.stdout, r.stderr)
					}
				}
				return
			}
			if !strings.Contains(all[0].stdout, d.first) {
				t.Errorf("the first host: code %d\n%s%s", all[0].code, all[0].stdout, all[0].stderr)
			}
			hit := false
			for _, f := range r.report.Findings {
				if f.State == "problem" && f.Check == d.check && strings.Contains(f.Text, d.text) {
					hit = true
					if !strings.Contains(f.Try, d.remedy) {
						t.Errorf("try: %s, want %q", f.Try, d.remedy)
					}
				}
			}
			extra := slices.DeleteFunc(r.problems(), func(s string) bool { return s == d.check })
			if !hit || r.code != 3 || len(extra) > 0 {
				t.Errorf("code %d, problems %v, want %s: %s\n%+v\n%s", r.code, r.problems(), d.check, d.text, r.report.Findings, r.stderr)
			}
		})
	}
}

// onHosts runs trireme on hosts, concurrently, and returns exit codes and output.
func onHosts(t *testing.T, hosts []*netns.Host, env []string, args func(i int) []string) (codes []int, out []string) {
	t.Helper()
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	codes, out = make([]int, len(hosts)), make([]string, len(hosts))
	var wg sync.WaitGroup
	for i, h := range hosts {
		c := h.Command(ctx, exe, args(i)...)
		c.Env = append(append(os.Environ(), "TMPDIR="+t.TempDir(), "TRIREME_JOB_SECRET="+strings.Repeat("s", 32)), env...)
		wg.Go(func() {
			b, _ := c.CombinedOutput() // the exit code has the error
			codes[i], out[i] = c.ProcessState.ExitCode(), string(b)
		})
	}
	wg.Wait()
	return codes, out
}

// needFirewall skips a test where there is no iptables.
func needFirewall(t *testing.T) {
	t.Helper()
	clustertest.Program(t, "iptables", "iptables")
}

func iptables(h *netns.Host, rule string) error {
	out, err := h.Command(context.Background(), "iptables", strings.Fields(rule)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("iptables %s: %w: %s", rule, err, out)
	}
	return nil
}

// TestLaunchPreflight: launchers check their hosts before the first start, and start nothing if one does not reach
// another.
func TestLaunchPreflight(t *testing.T) {
	needFirewall(t)
	m := netns.New(t, 2)
	args := func(i int) []string {
		return []string{"launch", "--preflight", "--nnodes", "2", "--node_rank", fmt.Sprint(i), "--max_restarts", "2", "--rdzv_endpoint", m.Hosts[0].Addr + ":29400", "--", "echo", "started"}
	}
	codes, out := onHosts(t, m.Hosts, nil, args)
	if codes[0] != 0 || codes[1] != 0 || !strings.Contains(out[0], "2 hosts, 2 of 2 directions connect") || strings.Contains(out[1], "directions") || !strings.Contains(out[1], "started") {
		t.Errorf("codes %v\n%s", codes, strings.Join(out, "\n"))
	}
	if err := iptables(m.Hosts[1], "-A INPUT -p tcp --syn -j REJECT --reject-with tcp-reset"); err != nil {
		t.Fatal(err)
	}
	codes, out = onHosts(t, m.Hosts, nil, args)
	for i := range codes {
		if codes[i] != 3 || strings.Contains(out[i], "started") || strings.Count(out[i], "the preflight found 1 problem, the first: node0 (10.77.0.1) cannot reach node1 (10.77.0.2) (refused); node1 reaches node0: a firewall on node1") != 1 {
			t.Errorf("host %d: code %d\n%s", i, codes[i], out[i])
		}
	}
}

// TestNamedInterface: NCCL_SOCKET_IFNAME and parallel.interface choose the network for data between hosts. Its
// first network is closed but for the ports of the rendezvous.
func TestNamedInterface(t *testing.T) {
	needFirewall(t)
	m := netns.New(t, 2)
	a := m.Hosts[0]
	for i, h := range m.Hosts {
		for _, line := range []string{
			"link add eth1 type veth peer name unused", "link set unused up", fmt.Sprintf("address add 10.88.0.%d/32 dev eth1", i+1), "link set eth1 up",
			fmt.Sprintf("route add 10.88.0.%d via %s", 2-i, m.Hosts[1-i].Addr),
		} {
			if out, err := h.Command(t.Context(), "ip", strings.Fields(line)...).CombinedOutput(); err != nil {
				t.Fatalf("ip %s: %v: %s", line, err, out)
			}
		}
	}
	for _, rule := range []string{"-A INPUT -d " + a.Addr + " -p tcp --dport 29500:29501 -j ACCEPT", "-A INPUT -d " + a.Addr + " -p tcp --syn -j REJECT"} {
		if err := iptables(a, rule); err != nil {
			t.Fatal(err)
		}
	}
	bench := func(i int) []string {
		return []string{"launch", "--nnodes", "2", "--node_rank", fmt.Sprint(i), "--master_addr", a.Addr, "--", "trireme", "bench", "collectives", "--seconds", "0.001", "--timeout", "1s"}
	}
	if codes, out := onHosts(t, m.Hosts, nil, bench); codes[0] == 0 || codes[1] == 0 {
		t.Errorf("the first network carries data: codes %v\n%s", codes, strings.Join(out, "\n"))
	}
	for _, v := range []string{"NCCL_SOCKET_IFNAME=eth1", "GLOO_SOCKET_IFNAME=^lo,eth0"} {
		if codes, out := onHosts(t, m.Hosts, []string{v}, bench); codes[0] != 0 || codes[1] != 0 {
			t.Errorf("%s: codes %v\n%s", v, codes, strings.Join(out, "\n"))
		}
	}
	if codes, out := onHosts(t, m.Hosts, nil, func(i int) []string {
		return slices.Insert(bench(i), 1, "--local_addr", fmt.Sprintf("10.88.0.%d", i+1))
	}); codes[0] != 0 || codes[1] != 0 {
		t.Errorf("--local_addr: codes %v\n%s", codes, strings.Join(out, "\n"))
	}
	codes, out := onHosts(t, m.Hosts, []string{"NCCL_SOCKET_IFNAME=eth1"}, func(i int) []string {
		return []string{"launch", "--nnodes", "2", "--node_rank", fmt.Sprint(i), "--rdzv_endpoint", a.Addr + ":29500", "--", "sh", "-c", "echo at $MASTER_ADDR"}
	})
	if codes[0] != 0 || codes[1] != 0 || !strings.Contains(out[1], "at 10.88.0.1\n") {
		t.Errorf("codes %v\n%s", codes, strings.Join(out, "\n"))
	}
	codes, out = onHosts(t, m.Hosts[:1], []string{"NCCL_SOCKET_IFNAME=ib0"}, bench)
	if codes[0] != 2 || !strings.Contains(out[0], "NCCL_SOCKET_IFNAME=ib0 names no interface of this host that is up and has an address; it has lo (127.0.0.1, ::1), eth0 (10.77.0.1") {
		t.Errorf("code %v\n%s", codes, out[0])
	}
}
