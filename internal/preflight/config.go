package preflight

import (
	"errors"
	"fmt"
	"time"

	"trireme/collective"
	"trireme/internal/host"
	"trireme/internal/secureconn"
)

// Config configures Run. Index, N, Name, Address and Exchange are required.
type Config struct {
	// Exchange gathers a value of every host, in the order of their indices. A key is used once.
	Exchange collective.Bootstrap
	// Prefix is the beginning of the keys of this check.
	Prefix string
	// Index is this host's position among N.
	Index, N int
	// Name is this host's name, which the others resolve.
	Name string
	// Address is the IP address of this host that the others connect to, without a port.
	Address string
	// Key authenticates the connections; 32 bytes of the job's secret for this purpose. All hosts need the same.
	Key []byte
	// Mode is the protection of the connections, as the ranks will have it.
	Mode secureconn.Mode
	// Digest is a hash of the configuration and other files that all hosts need alike; empty: none.
	Digest string
	// Facts are those of this host.
	Facts host.Facts
	// Limit is the time for each step. 0: 15 seconds.
	Limit time.Duration
	// Speed is the time of a bandwidth measurement in one direction. 0: 200 ms, less with many hosts.
	Speed time.Duration
	// Now is this host's wall clock. nil: time.Now.
	Now func() time.Time
}

func (c *Config) validate() error {
	switch {
	case c.Exchange == nil:
		return errors.New("preflight: no exchange")
	case c.N < 2 || c.N > maxHosts:
		return fmt.Errorf("preflight: %d hosts: it must be 2 to %d", c.N, maxHosts)
	case c.Index < 0 || c.Index >= c.N:
		return fmt.Errorf("preflight: host %d of %d", c.Index, c.N)
	}
	if c.Limit <= 0 {
		c.Limit = 15 * time.Second
	}
	if c.Speed <= 0 {
		c.Speed = min(200*time.Millisecond, max(20*time.Millisecond, speedTotal/time.Duration(2*c.N)))
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}

const (
	maxHosts   = 4096
	speedTotal = 10 * time.Second // of all bandwidth measurements of a host
)
