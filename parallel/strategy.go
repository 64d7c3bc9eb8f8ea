package parallel

import (
	"fmt"
	"strings"
	"time"
)

// Strategy says which parts of the training state are divided over the shard axis of the mesh.
type Strategy struct {
	Name                     string
	Params, Grads, Optimizer bool
	// Replicas says that the mesh may have a replicate axis.
	Replicas bool
}

// strategies is the whole difference between DDP, ZeRO 1-3, FSDP and hybrid sharding.
var strategies = []struct {
	Strategy
	also []string
}{
	{Strategy{Name: "no_shard"}, []string{"ddp", "zero_0", "3"}},
	{Strategy{Name: "zero_1", Optimizer: true}, []string{"os", "zero1"}},
	{Strategy{Name: "shard_grad_op", Grads: true, Optimizer: true}, []string{"zero_2", "zero2", "2"}},
	{Strategy{Name: "full_shard", Params: true, Grads: true, Optimizer: true}, []string{"fsdp", "zero_3", "zero3", "1"}},
	{Strategy{Name: "hybrid_shard", Params: true, Grads: true, Optimizer: true, Replicas: true}, []string{"hsdp", "mics", "4"}},
	{Strategy{Name: "hybrid_shard_zero2", Grads: true, Optimizer: true, Replicas: true}, []string{"_hybrid_shard_zero2", "5"}},
}

// ParseStrategy knows FSDP's names, DeepSpeed's stages and Accelerate's numbers, in any case
// and with - for _.
func ParseStrategy(name string) (Strategy, error) {
	want := strings.ReplaceAll(strings.ToLower(name), "-", "_")
	var known []string
	for _, s := range strategies {
		if want == s.Name {
			return s.Strategy, nil
		}
		for _, a := range s.also {
			if want == a {
				return s.Strategy, nil
			}
		}
		known = append(known, s.Name)
	}
	return Strategy{}, fmt.Errorf("parallel: strategy %q is not known. known: %s (and ddp, fsdp, zero_2, zero_3, hsdp, 1-5)", name, strings.Join(known, ", "))
}

// Config is the node `parallel` of the configuration.
type Config struct {
	// Strategy: no_shard | zero_1 | shard_grad_op | full_shard | hybrid_shard, or another name
	// of these. Default full_shard.
	Strategy string `yaml:"strategy"`
	// Mesh divides the ranks into replicas of groups that shard. 0 fills in: all ranks shard;
	// hybrid_shard makes 2 replicas where ranks are even.
	Mesh MeshConfig `yaml:"mesh"`
	Gathering
	// Backend is how ranks exchange data: auto | shm | tcp.
	Backend string `yaml:"backend"`
	// WorldInvariant sums gradients in one order for all world sizes. It costs communication
	// only where gradients are whole on each rank and micro-batches accumulate: they are then
	// reduced each micro-batch, not once a step. Default true.
	WorldInvariant bool `yaml:"world_invariant"`
	// Timeout ends a collective, or joining, that waits for a rank: seconds. Default 600.
	Timeout float64 `yaml:"timeout_seconds"`
}

// MeshConfig is the extent of each axis.
type MeshConfig struct {
	Replicate int `yaml:"replicate"` // copies of what is divided. 0: ranks / shard.
	Shard     int `yaml:"shard"`     // ranks that divide one copy. 0: ranks / replicate.
}

// Default is the configuration of a file that says nothing.
func Default() Config {
	return Config{Strategy: "full_shard", Gathering: defaultGathering(), Backend: "auto", WorldInvariant: true, Timeout: 600}
}

// Wait is Timeout as a duration.
func (c Config) Wait() time.Duration { return time.Duration(c.Timeout * float64(time.Second)) }

// Validate checks what does not depend on the world.
func (c Config) Validate() error {
	if _, err := ParseStrategy(c.Strategy); err != nil {
		return err
	}
	switch {
	case c.Backend != "auto" && c.Backend != "shm" && c.Backend != "tcp":
		return fmt.Errorf("parallel: backend %q is not known: auto, shm and tcp are", c.Backend)
	case c.Mesh.Replicate < 0 || c.Mesh.Shard < 0:
		return fmt.Errorf("parallel: mesh %dx%d has a negative extent. try: 0, which is worked out", c.Mesh.Replicate, c.Mesh.Shard)
	case !(c.Timeout > 0):
		return fmt.Errorf("parallel: timeout_seconds is %v: it must be positive", c.Timeout)
	}
	return c.Gathering.validate()
}

// Resolve is the strategy, and the mesh's extents in a world of so many ranks.
func (c Config) Resolve(world int) (s Strategy, replicate, shard int, err error) {
	if s, err = ParseStrategy(c.Strategy); err != nil {
		return s, 0, 0, err
	}
	replicate, shard = c.Mesh.Replicate, c.Mesh.Shard
	switch {
	case replicate == 0 && shard == 0 && s.Replicas && world%2 == 0 && world > 2:
		replicate, shard = 2, world/2
	case replicate == 0 && shard == 0:
		replicate, shard = 1, world
	case replicate == 0:
		replicate = world / shard
	case shard == 0:
		shard = world / replicate
	}
	switch {
	case replicate*shard != world:
		return s, 0, 0, fmt.Errorf("parallel: mesh replicate %d x shard %d is not the %d ranks there are. try: --set parallel.mesh.replicate=%d --set parallel.mesh.shard=%d",
			replicate, shard, world, 1, world)
	case replicate > 1 && !s.Replicas:
		return s, 0, 0, fmt.Errorf("parallel: strategy %s has no replicas, the mesh has %d. try: hybrid_shard, or mesh.replicate 1", s.Name, replicate)
	case s.Params && c.ReshardAfterForward > KeepWhole && shard%int(c.ReshardAfterForward) != 0:
		return s, 0, 0, fmt.Errorf("parallel: reshard_after_forward is %d, which does not divide the %d ranks that shard. try: --set parallel.reshard_after_forward=true, or a divisor", c.ReshardAfterForward, shard)
	}
	return s, replicate, shard, nil
}
