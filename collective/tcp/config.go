package tcp

import (
	"errors"
	"fmt"
	"net"

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
	// Mode is the protection of connections, the same on all ranks.
	Mode Mode
	// Host is the name or address of the interface to listen on, which the other ranks must reach.
	// Empty is 127.0.0.1.
	Host string
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
	return nil
}
