package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"trireme/fault"
	"trireme/launch"
)

// Config configures Run. Workers is required. The zero values of the rest are a job on this host alone.
// All launchers of a job need the same values, except for Workers, NodeRank, Name and LocalAddr.
type Config struct {
	// Workers are the workers of this host, whose number may differ between hosts. Run sets the fields of the
	// world (FirstRank to Secret).
	Workers launch.Config

	// MinHosts and MaxHosts are torchrun's --nnodes MIN:MAX. A job with equal numbers starts when all hosts have
	// joined. An elastic one starts with MaxHosts, or with MinHosts after Conf.LastCall, and continues with the
	// hosts that remain or return. 0: 1.
	MinHosts, MaxHosts int
	// NodeRank is torchrun's --node-rank, the position of this host among the hosts. nil: the order of joining.
	// Set it on all hosts or on none.
	NodeRank *int

	// Endpoints are torchrun's --rdzv-endpoint: the addresses HOST:PORT of the launchers' store, one or three.
	// The launcher on such a host runs the store, or its replica, there. Required for several hosts, unless
	// MasterAddr is set.
	Endpoints []string
	// Backend is torchrun's --rdzv-backend. "", "c10d" and "static" are the built-in store; "etcd" is a
	// running etcd at Endpoints, in a program built with the tag etcd.
	Backend string
	// Lookup reads the variables of etcd's client (ETCDCTL_...): os.LookupEnv. Required for etcd.
	Lookup func(name string) (string, bool)

	// MasterAddr and MasterPort are torchrun's --master-addr and --master-port: MASTER_ADDR and MASTER_PORT of
	// the workers. "" and 0 are an address of the first host, and a free port there. Without Endpoints the
	// launchers' store is at MasterAddr, port MasterPort + 1.
	MasterAddr string
	MasterPort int

	// RunID is torchrun's --rdzv-id, the name of the job. "": none, or random on one host.
	RunID string
	// LocalAddr is torchrun's --local-addr, the address at which other hosts reach this one. "": that of the
	// interface that leads to the store.
	LocalAddr string
	// Name is the name of this host in messages. "": os.Hostname.
	Name string

	// MaxRestarts is the number of restarts after a failed worker, of the job. A lost host, and one that joins
	// a running job, do not count.
	MaxRestarts int
	Conf        Conf

	// Preflight is called before the first generation, at the same time on each of its hosts, if there are
	// several. An error ends the job on all of them, with launch.CodeNo. nil: no check.
	Preflight func(ctx context.Context, c Check) error
	// Secret is the job's secret (rendezvous.SecretFileVar), which authenticates launchers and workers on
	// several hosts. nil: generated on one host; this user's key if the store is on a loopback address.
	Secret []byte
	// Insecure allows launchers and workers on several hosts without a secret, for a network that no stranger
	// reaches.
	Insecure bool
}

// hosts returns MinHosts and MaxHosts with their defaults.
func (c *Config) hosts() (least, most int) {
	least = max(c.MinHosts, 1)
	return least, max(c.MaxHosts, least)
}

// elastic reports whether the number of hosts may change.
func (c *Config) elastic() bool { least, most := c.hosts(); return least < most }

// restarts reports whether workers may be started again.
func (c *Config) restarts() bool { return c.MaxRestarts > 0 || c.elastic() }

// alone reports whether this launcher is the whole job: then nothing connects or listens.
func (c *Config) alone() bool { _, most := c.hosts(); return most == 1 && len(c.Endpoints) == 0 }

// replicated reports whether several launchers run the store.
func (c *Config) replicated() bool { return c.Backend != etcd && len(c.Endpoints) > 1 }

// Validate checks c. Errors name torchrun's flags.
func (c *Config) Validate() error {
	least, most := c.hosts()
	switch {
	case c.MinHosts < 0 || c.MaxHosts < 0 || c.MaxHosts != 0 && c.MaxHosts < c.MinHosts:
		return fault.Try(fmt.Errorf("--nnodes is %d:%d: it must be a number, or MIN:MAX", c.MinHosts, c.MaxHosts), "--nnodes %d:%d", max(1, c.MaxHosts), max(1, c.MinHosts))
	case c.MaxRestarts < 0:
		return fmt.Errorf("--max-restarts is %d: it must not be negative", c.MaxRestarts)
	case c.NodeRank != nil && (*c.NodeRank < 0 || *c.NodeRank >= most):
		return fmt.Errorf("--node-rank is %d, not 0 to %d (--nnodes %d)", *c.NodeRank, most-1, most)
	case c.MasterPort < 0 || c.MasterPort > 65534:
		return fmt.Errorf("--master-port is %d, not 1 to 65534", c.MasterPort)
	case c.Backend == etcd && (c.RunID == "" || c.RunID == "none"):
		return fault.Try(errors.New("--rdzv-backend etcd needs a name of the job: etcd keeps those of earlier ones"), "--rdzv-id NAME, a new one for each job")
	case c.Backend == etcd && len(c.Endpoints) == 0:
		return fault.Try(errors.New("--rdzv-backend etcd needs the addresses of etcd"), "--rdzv-endpoint HOST:%d", etcdPort)
	case c.Backend != etcd && (len(c.Endpoints) == 2 || len(c.Endpoints) > 3):
		return fault.Try(fmt.Errorf("--rdzv-endpoint has %d addresses: the store has one copy, or three", len(c.Endpoints)), "one or three addresses HOST:PORT, separated by commas")
	case most > 1 && len(c.Endpoints) == 0 && c.MasterAddr == "":
		return fault.Try(fmt.Errorf("a job on %d hosts needs an address at which its launchers join", most), "--rdzv-endpoint HOST:PORT, or --master-addr HOST, the same on all hosts")
	case least > 1 && c.NodeRank == nil && len(c.Endpoints) == 0:
		return fault.Try(fmt.Errorf("with --master-addr, each of %d hosts needs its --node-rank", most), "--node-rank 0 on %s, 1 to %d on the others; or --rdzv-endpoint %s:%d, which numbers the hosts", c.MasterAddr, most-1, c.MasterAddr, DefaultPort)
	}
	seen := map[string]bool{}
	for _, e := range c.endpoints() {
		_, port, err := net.SplitHostPort(e)
		if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 1 || n > 65535 {
			return fault.Try(fmt.Errorf("--rdzv-endpoint %q is not HOST:PORT", e), "--rdzv-endpoint HOST:%d", DefaultPort)
		}
		if seen[e] {
			return fmt.Errorf("--rdzv-endpoint has %s twice", e)
		}
		seen[e] = true
	}
	return nil
}

// DefaultPort is the port of an endpoint without one, as for torchrun.
const DefaultPort = 29400

// etcd is the Backend of a running etcd, etcdPort the port of its clients.
const (
	etcd     = "etcd"
	etcdPort = 2379
)

// defaultMasterPort is MASTER_PORT with MasterAddr alone, as for torchrun.
const defaultMasterPort = 29500

// endpoints returns the addresses of the store, each with a port.
func (c *Config) endpoints() (all []string) {
	if len(c.Endpoints) == 0 && c.MasterAddr != "" && !c.alone() {
		return []string{net.JoinHostPort(c.MasterAddr, strconv.Itoa(c.masterPort()+1))}
	}
	for _, e := range c.Endpoints {
		if _, _, err := net.SplitHostPort(e); err != nil {
			if host := strings.Trim(e, "[]"); host != "" && (net.ParseIP(host) != nil || !strings.Contains(host, ":")) {
				port := DefaultPort
				if c.Backend == etcd {
					port = etcdPort
				}
				e = net.JoinHostPort(host, strconv.Itoa(port))
			}
		}
		all = append(all, e)
	}
	return all
}

// masterPort returns MASTER_PORT of the workers if it is fixed, or 0.
func (c *Config) masterPort() int {
	if c.MasterPort == 0 && c.MasterAddr != "" && len(c.Endpoints) == 0 {
		return defaultMasterPort
	}
	return c.MasterPort
}

// Conf has the settings of torchrun's --rdzv-conf. Zero values are defaults.
type Conf struct {
	// JoinTimeout is the time for which a launcher waits for the store and for missing hosts. 0: ten minutes.
	JoinTimeout time.Duration
	// LastCall is the time for which MinHosts wait for more hosts, up to MaxHosts. 0: 30 seconds.
	LastCall time.Duration
	// Close is the time for which the launcher that runs the store waits at the end for the others to read the
	// result. 0: 30 seconds.
	Close time.Duration
	// Lease is the time without a sign of life after which a host is lost. 0: two seconds.
	Lease time.Duration
	// Return is the time for which a launcher that has lost the store tries to reach it again, in an elastic
	// job. 0: one minute.
	Return time.Duration
	// Host says whether this launcher runs the store, against what Endpoints say. nil: as they say.
	Host *bool
}

func (c Conf) withDefaults() Conf {
	for _, d := range []struct {
		value *time.Duration
		usual time.Duration
	}{{&c.JoinTimeout, 10 * time.Minute}, {&c.LastCall, 30 * time.Second}, {&c.Close, 30 * time.Second}, {&c.Lease, 2 * time.Second}, {&c.Return, time.Minute}} {
		if *d.value <= 0 {
			*d.value = d.usual
		}
	}
	return c
}
