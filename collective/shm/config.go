package shm

import (
	"fmt"
	"slices"

	"trireme/collective"
)

// Config configures Open.
type Config struct {
	collective.Config
	Rank, Size int
	Bootstrap  collective.Bootstrap
	// Key is the prefix of Bootstrap keys, so that one Bootstrap can serve several worlds.
	Key string
	// Ranks are the ranks to connect, ascending, which include Rank; nil is all. Every rank of the world
	// calls Open or Connect all the same.
	Ranks []int
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
	if c.Ranks == nil {
		for r := range c.Size {
			c.Ranks = append(c.Ranks, r)
		}
	}
	if !slices.Contains(c.Ranks, c.Rank) || !slices.IsSorted(c.Ranks) || c.Ranks[0] < 0 || c.Ranks[len(c.Ranks)-1] >= c.Size {
		return fmt.Errorf("collective/shm: rank %d of %d connects ranks %v", c.Rank, c.Size, c.Ranks)
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
