package shm

import (
	"fmt"

	"trireme/collective"
)

// Config configures Open.
type Config struct {
	collective.Config
	Rank, Size int
	Bootstrap  collective.Bootstrap
	// Key is the prefix of Bootstrap keys, so that one Bootstrap can serve several worlds.
	Key string
	// ArenaBytes is the address space of each rank's arena; 0 is 256 GiB. Untouched pages take no
	// memory.
	ArenaBytes int64
}

// Validate sets defaults and checks values.
func (c *Config) Validate() error {
	if err := c.Config.Validate(); err != nil {
		return err
	}
	if c.Rank < 0 || c.Rank >= c.Size || c.Bootstrap == nil {
		return fmt.Errorf("collective/shm: rank %d of %d, Bootstrap %v", c.Rank, c.Size, c.Bootstrap != nil)
	}
	if c.ArenaBytes < 0 {
		return fmt.Errorf("collective/shm: arena of %d bytes", c.ArenaBytes)
	}
	if c.ArenaBytes == 0 {
		c.ArenaBytes = 256 << 30
	}
	c.ArenaBytes = (c.ArenaBytes + 1<<16 - 1) &^ (1<<16 - 1)
	return nil
}
