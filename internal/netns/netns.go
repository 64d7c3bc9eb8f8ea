package netns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Net is some hosts on one switch. Methods are not safe for concurrent use.
type Net struct {
	Hosts    []*Host
	switchNS string // the namespace with the bridge
}

// Host is a network namespace with one interface, eth0.
type Host struct {
	Name string // node0, node1, ...; every host resolves the names of all
	Addr string // its IPv4 address
	ns   string
	net  *Net
	port string // its end of the link at the switch
}

const (
	prefix = "trireme-" // of names of namespaces; the process's pid follows
	etc    = "/etc/netns"
)

var made atomic.Int32

// Make makes n hosts, up to 250. Close removes them. The error says what is missing.
func Make(n int) (_ *Net, err error) {
	if err := usable(); err != nil {
		return nil, err
	}
	removeStale()
	id := fmt.Sprintf("%s%d-%d-", prefix, os.Getpid(), made.Add(1))
	m := &Net{switchNS: id + "switch"}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if err := runAll([]string{"ip netns add " + m.switchNS, "ip -n " + m.switchNS + " link add br0 type bridge", "ip -n " + m.switchNS + " link set br0 up"}); err != nil {
		return nil, err
	}
	hosts := "127.0.0.1 localhost\n"
	for i := range n {
		h := &Host{Name: "node" + strconv.Itoa(i), Addr: fmt.Sprintf("10.77.0.%d", i+1), ns: id + strconv.Itoa(i), net: m, port: "v" + strconv.Itoa(i)}
		m.Hosts = append(m.Hosts, h)
		hosts += h.Addr + " " + h.Name + "\n"
	}
	for _, h := range m.Hosts {
		if err := runAll([]string{
			"ip netns add " + h.ns,
			"ip -n " + m.switchNS + " link add " + h.port + " type veth peer name eth0 netns " + h.ns,
			"ip -n " + m.switchNS + " link set " + h.port + " master br0 up",
			"ip -n " + h.ns + " address add " + h.Addr + "/24 dev eth0",
			"ip -n " + h.ns + " link set lo up",
			"ip -n " + h.ns + " link set eth0 up",
		}); err != nil {
			return nil, err
		}
		if err := h.SetFile("hosts", hosts); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func usable() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("netns: network namespaces need Linux, not %s", runtime.GOOS)
	}
	if os.Getuid() != 0 {
		return errors.New("netns: network namespaces need root")
	}
	for _, p := range []string{"ip", "tc", "unshare", "hostname"} {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("netns: %w", err)
		}
	}
	return nil
}

// removeStale removes namespaces of processes that have ended.
func removeStale() {
	all, _ := os.ReadDir("/run/netns")
	for _, e := range all {
		pid, _, ok := strings.Cut(strings.TrimPrefix(e.Name(), prefix), "-")
		n, err := strconv.Atoi(pid)
		if ok && err == nil && strings.HasPrefix(e.Name(), prefix) && syscall.Kill(n, 0) == syscall.ESRCH {
			_ = remove(e.Name()) // another process may do the same
		}
	}
}

func remove(ns string) error {
	return errors.Join(run("ip netns delete "+ns), os.RemoveAll(filepath.Join(etc, ns)))
}

// Close removes the hosts. Processes in them keep running, without a network.
func (m *Net) Close() error {
	var errs []error
	for _, h := range m.Hosts {
		errs = append(errs, remove(h.ns))
	}
	return errors.Join(append(errs, remove(m.switchNS))...)
}

// Command returns a command that runs on the host. Its process is the program itself, so signals reach it.
func (h *Host) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	const named = `hostname "$0" && exec "$@"`
	return exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", h.ns, "unshare", "--uts", "sh", "-c", named, h.Name, name}, args...)...)
}

// SetFile replaces /etc/NAME for commands that start on this host from now on.
func (h *Host) SetFile(name, content string) error {
	dir := filepath.Join(etc, h.ns)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644)
}

// Cut drops all packets from and to the host, as a switch that has failed. Its interface stays up.
func (h *Host) Cut() error {
	return run("ip -n " + h.net.switchNS + " link set " + h.port + " nomaster")
}

// Restore ends Cut.
func (h *Host) Restore() error {
	return run("ip -n " + h.net.switchNS + " link set " + h.port + " master br0")
}

// SetDown takes the host's interface down, as a pulled cable. The host loses its routes and sees errors.
func (h *Host) SetDown() error { return run("ip -n " + h.ns + " link set eth0 down") }

// SetUp ends SetDown.
func (h *Host) SetUp() error { return run("ip -n " + h.ns + " link set eth0 up") }

// Limit limits the host's link to bits per second in each direction; 0 is no limit.
func (h *Host) Limit(bitsPerSecond int64) error {
	for _, dev := range []string{h.net.switchNS + " dev_" + h.port, h.ns + " dev_eth0"} {
		ns, dev, _ := strings.Cut(dev, " dev_")
		if err := run("tc -n " + ns + " qdisc delete dev " + dev + " root"); err != nil && bitsPerSecond == 0 {
			return err
		}
		if bitsPerSecond > 0 {
			burst := max(64<<10, bitsPerSecond/8/100) // 10 ms
			if err := run(fmt.Sprintf("tc -n %s qdisc add dev %s root tbf rate %dbit burst %d latency 50ms", ns, dev, bitsPerSecond, burst)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Block drops packets from this host to another. Those of the other direction arrive.
func (h *Host) Block(to *Host) error {
	return run("ip -n " + h.ns + " route add blackhole " + to.Addr + "/32")
}

// Unblock ends Block.
func (h *Host) Unblock(to *Host) error {
	return run("ip -n " + h.ns + " route delete blackhole " + to.Addr + "/32")
}

// SetMTU sets the largest packet of the host's interface, in bytes.
func (h *Host) SetMTU(bytes int) error {
	return run(fmt.Sprintf("ip -n %s link set eth0 mtu %d", h.ns, bytes))
}

func runAll(lines []string) error {
	for _, l := range lines {
		if err := run(l); err != nil {
			return err
		}
	}
	return nil
}

func run(line string) error {
	f := strings.Fields(line)
	if out, err := exec.Command(f[0], f[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("netns: %s: %w: %s", line, err, strings.TrimSpace(string(out)))
	}
	return nil
}
