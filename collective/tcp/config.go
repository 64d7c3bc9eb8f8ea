package tcp

import (
	"errors"
	"fmt"
	"net"

	"trireme/collective"
)

// Config says who opens a world, and with whom.
type Config struct {
	collective.Config
	Rank, Size int
	Bootstrap  collective.Bootstrap
	// Key begins the exchange's keys, so that one exchange can serve several worlds.
	Key string
	// Secret is what all ranks of the job know and nobody else, at least 16 bytes.
	Secret []byte
	// Job is bound to the secret: ranks of another job, or attempt, with it stay out.
	Job string
	// Host is the name or address of the interface to listen on, which the others can reach;
	// empty is 127.0.0.1.
	Host string
}

// Validate fills in defaults and checks the rest.
func (c *Config) Validate() error {
	if err := c.Config.Validate(); err != nil {
		return err
	}
	if c.Rank < 0 || c.Rank >= c.Size {
		return fmt.Errorf("collective/tcp: rank %d of %d", c.Rank, c.Size)
	}
	if c.Bootstrap == nil {
		return errors.New("collective/tcp: no exchange")
	}
	if len(c.Secret) < 16 {
		return fmt.Errorf("collective/tcp: a secret of %d bytes; at least 16 are needed", len(c.Secret))
	}
	if c.Host == "" {
		c.Host = "127.0.0.1"
	}
	if ip := net.ParseIP(c.Host); ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("collective/tcp: host %s is every interface; name one that the other ranks can reach", c.Host)
	}
	return nil
}
