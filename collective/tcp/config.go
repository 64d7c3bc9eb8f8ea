package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"

	"trireme/collective"
	"trireme/internal/secureconn"
)

// Mode is the protection of connections.
type Mode uint8

const (
	Encrypt = Mode(secureconn.Encrypt) // secret and authenticated
	Sign    = Mode(secureconn.Sign)    // authenticated
	Plain   = Mode(secureconn.Plain)   // neither: for loopback, or a network without strangers
)

// Config configures Open.
type Config struct {
	collective.Config
	Rank, Size int
	Bootstrap  collective.Bootstrap
	// Key is the prefix of Bootstrap keys, so that one Bootstrap can serve several worlds.
	Key string
	// Secret is the key of this job and attempt, 32 bytes (rendezvous.Store.Key).
	Secret []byte
	// Job is the id of the job and attempt. Ranks with another id are refused even if they have the
	// secret.
	Job string
	// Host is the name or address of the interface to listen on, which the other ranks must reach.
	// Empty is 127.0.0.1.
	Host string
	// Mode is the protection of connections, the same on all ranks.
	Mode Mode
	// Connections is the number of connections over which a large operation between two ranks is spread
	// in one direction. 0 is one for two processors, up to 4; ranks use the smallest value of all. One
	// connection uses up to two processors of each host, and often not all of a fast network.
	Connections int
	// Node is the number of the host that the rank runs on. Ranks of a host share memory through Local.
	Node int
	// Local connects this rank to ranks of its host, which are ranks of the world. It reports failures to
	// failed, which records them in failure. nil: ranks share no memory.
	Local func(ctx context.Context, ranks []int, failure *collective.FailureOnce, failed func(*collective.Failure)) (collective.Transport, error)
}

// Validate sets defaults and checks values.
func (c *Config) Validate() error {
	if err := c.Config.Validate(); err != nil {
		return err
	}
	if c.Rank < 0 || c.Rank >= c.Size {
		return fmt.Errorf("collective/tcp: rank %d of %d", c.Rank, c.Size)
	}
	if c.Bootstrap == nil {
		return errors.New("collective/tcp: no Bootstrap")
	}
	if len(c.Secret) != 32 {
		return fmt.Errorf("collective/tcp: the secret has %d bytes, not 32", len(c.Secret))
	}
	if c.Host == "" {
		c.Host = "127.0.0.1"
	}
	if ip := net.ParseIP(c.Host); ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("collective/tcp: host %s is every interface. try: the address of one that the other ranks can reach", c.Host)
	}
	if c.Connections < 0 || c.Connections > collective.MaxStripes {
		return fmt.Errorf("collective/tcp: %d connections, not 1 to %d", c.Connections, collective.MaxStripes)
	}
	if c.Connections == 0 {
		c.Connections = min(max(runtime.GOMAXPROCS(0)/2, 1), 4)
	}
	if c.Node < 0 {
		return fmt.Errorf("collective/tcp: node %d is negative", c.Node)
	}
	return nil
}
