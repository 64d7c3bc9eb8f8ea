package cli

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"trireme/internal/cluster"
	"trireme/internal/netif"
	"trireme/launch"
)

// addresses sets where launchers and workers meet.
func (f *launchFlags) addresses(s *launchSettings, file accelerateFile) (err error) {
	c := &s.cluster
	address, err := f.one("master_addr", "main_process_ip")
	if err != nil {
		return err
	}
	if address == nil {
		address = file.first("main_process_ip")
	}
	port, err := f.one("master_port", "main_process_port")
	if err != nil {
		return err
	}
	if port == nil {
		port = file.first("main_process_port")
	}
	if address != nil {
		c.MasterAddr = strings.Trim(address.value, "[]")
	}
	if port != nil {
		if c.MasterPort, err = strconv.Atoi(port.value); err != nil || c.MasterPort < 0 || c.MasterPort > 65534 {
			return usage(fmt.Sprintf("%s is %s, not a port from 1 to 65534", port.from, port.value), "--master_port 29500")
		}
	}
	var notes []string
	if c.Conf, notes, err = cluster.ParseConf(f.conf); err != nil {
		return &Exit{CodeUsage, err}
	}
	s.notes = append(s.notes, notes...)
	c.RunID, c.LocalAddr, c.MaxRestarts = f.rdzvID, f.localAddr, f.maxRestarts
	switch f.rdzvBackend {
	case "", "c10d", "nats", "static":
	case "etcd":
		c.Backend, c.Lookup = "etcd", os.LookupEnv
	case "etcd-v2":
		return usage("--rdzv_backend etcd-v2 uses a protocol that etcd 3.6 no longer has", "--rdzv_backend etcd, or c10d, which needs no server")
	default:
		return usage(fmt.Sprintf("--rdzv_backend is %q, not c10d, nats, static or etcd", f.rdzvBackend), "--rdzv_backend c10d")
	}
	endpoints := f.rdzvEndpoint
	switch {
	case f.standalone:
		f.alone(s)
		return nil
	case endpoints != "" && f.rdzvBackend == "static":
		host, p, err := net.SplitHostPort(endpoints)
		if err != nil {
			host, p = endpoints, "29500"
		}
		if c.MasterPort, err = strconv.Atoi(p); err != nil || c.MasterPort < 1 || c.MasterPort > 65534 {
			return usage(fmt.Sprintf("--rdzv_endpoint %s has no port from 1 to 65534", endpoints), "--rdzv_endpoint HOST:29500")
		}
		c.MasterAddr = host
	case endpoints != "" && c.MaxHosts > 1:
		if address != nil || port != nil {
			s.note("--master_addr and --master_port have no effect with --rdzv_endpoint: machine 0 chooses a free port")
			c.MasterAddr, c.MasterPort = "", 0
		}
		for e := range strings.SplitSeq(endpoints, ",") {
			if _, p, err := net.SplitHostPort(e); err == nil && p == "0" {
				return usage(fmt.Sprintf("--rdzv_endpoint %s has port 0, which other machines do not know", e), "--rdzv_endpoint HOST:29400")
			}
			c.Endpoints = append(c.Endpoints, strings.TrimSpace(e))
		}
	}
	if c.LocalAddr == "" && c.MaxHosts > 1 && s.hosts == nil {
		if c.LocalAddr, err = namedAddress(c); err != nil {
			return err
		}
	}
	if c.MaxHosts == 1 {
		f.oneHost(s, endpoints != "" && f.rdzvBackend != "static", port != nil)
	}
	return nil
}

// namedAddress returns the address of the interface that NCCL_SOCKET_IFNAME or another variable names, for
// launchers and workers of several machines; empty if none does.
func namedAddress(c *cluster.Config) (string, error) {
	chosen := netif.Chosen("", os.LookupEnv)
	if chosen.Spec == "" {
		return "", nil
	}
	at := net.JoinHostPort(c.MasterAddr, strconv.Itoa(usualPort))
	if len(c.Endpoints) > 0 {
		at = c.Endpoints[0]
		if _, _, err := net.SplitHostPort(at); err != nil {
			at = net.JoinHostPort(at, strconv.Itoa(cluster.DefaultPort))
		}
	}
	a, err := chosen.Address(at)
	if err != nil {
		return "", &Exit{CodeUsage, err}
	}
	return a, nil
}

// alone sets a job of --standalone.
func (f *launchFlags) alone(s *launchSettings) {
	c := &s.cluster
	if c.MaxHosts > 1 || f.rdzvEndpoint != "" || c.MasterAddr != "" || c.MasterPort != 0 {
		s.note("--standalone runs on this machine only: flags of other machines have no effect")
	}
	c.MinHosts, c.MaxHosts, c.NodeRank = 1, 1, nil
	c.MasterAddr, c.MasterPort, c.RunID, c.Conf = "localhost", 0, launch.RandomID(), cluster.Conf{}
}

// oneHost sets MASTER_ADDR and MASTER_PORT on one machine: a free port with --rdzv_endpoint, as with torchrun,
// else 29500, or a free one if another program has that.
func (f *launchFlags) oneHost(s *launchSettings, free, fixed bool) {
	c := &s.cluster
	c.NodeRank = nil
	if c.MasterAddr == "" {
		c.MasterAddr = "127.0.0.1"
	}
	switch {
	case fixed:
	case free:
		c.MasterPort = 0
	case c.MasterPort == 0 && portIsFree(usualPort):
		c.MasterPort = usualPort
	case c.MasterPort == 0:
		s.note("port %d is in use: MASTER_PORT is another one", usualPort)
	}
}

// usualPort is torchrun's MASTER_PORT.
const usualPort = 29500

func portIsFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	l.Close()
	return true
}
