package natsstore

import (
	"fmt"
	"net"
	"time"

	"trireme/internal/secureconn"
)

// Config is the same in all launchers of a job, except for Failed and Timeout.
type Config struct {
	// Endpoints are the addresses HOST:PORT of the servers: one, or three.
	Endpoints []string
	// Key authenticates the launchers of the job: 32 bytes, from rendezvous.Env.Key.
	Key []byte
	// Mode protects connections.
	Mode secureconn.Mode
	// Failed, which may be nil, is called with the error of each failed connection, from any goroutine.
	Failed func(error)
	// Timeout limits a call that gets no answer. 0: 15 seconds, which is longer than an election.
	Timeout time.Duration
}

// ReplicatedTTL is a ttl of leases that survive an election among three servers.
const ReplicatedTTL = 20 * time.Second

func (c *Config) secure() secureconn.Config { return secureconn.Config{Key: c.Key, Mode: c.Mode} }

func (c *Config) timeout() time.Duration {
	if c.Timeout == 0 {
		return 15 * time.Second
	}
	return c.Timeout
}

func (c *Config) validate() error {
	if n := len(c.Endpoints); n != 1 && n != 3 {
		return fmt.Errorf("natsstore: %d endpoints: a job has one server, or three", n)
	}
	for _, e := range c.Endpoints {
		if _, _, err := net.SplitHostPort(e); err != nil {
			return fmt.Errorf("natsstore: endpoint %q is not HOST:PORT", e)
		}
	}
	return nil
}

// The hello of a connection names its contents.
var (
	helloClient = []byte("store client 1")
	helloRoute  = []byte("store route 1")
)
