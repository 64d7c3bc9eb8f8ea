package parallel

import (
	"fmt"
	"strings"
	"time"

	"trireme/fault"
	"trireme/internal/conf"
)

// Strategy says which parts of the training state are sharded over the shard axis of the mesh.
type Strategy struct {
	Name                     string
	Params, Grads, Optimizer bool
	// Replicas allows a replicate axis.
	Replicas bool
}

// strategies are DDP, ZeRO 1-3, FSDP and hybrid sharding, from least to most sharded.
var strategies = []struct {
	Strategy
	also []string
}{
	{Strategy{Name: "no_shard"}, []string{"ddp", "zero_0", "3"}},
	{Strategy{Name: "zero_1", Optimizer: true}, []string{"os", "zero1"}},
	{Strategy{Name: "hybrid_shard_zero2", Grads: true, Optimizer: true, Replicas: true}, []string{"_hybrid_shard_zero2", "5"}},
	{Strategy{Name: "shard_grad_op", Grads: true, Optimizer: true}, []string{"zero_2", "zero2", "2"}},
	{Strategy{Name: "hybrid_shard", Params: true, Grads: true, Optimizer: true, Replicas: true}, []string{"hsdp", "mics", "4"}},
	{Strategy{Name: "full_shard", Params: true, Grads: true, Optimizer: true}, []string{"fsdp", "zero_3", "zero3", "1"}},
}

// StrategyNames returns the names of all strategies, from least to most sharded.
func StrategyNames() []string {
	var out []string
	for _, s := range strategies {
		out = append(out, s.Name)
	}
	return out
}

// ParseStrategy accepts these names, FSDP's names and numbers, and DeepSpeed's stages, in any case and
// with - for _.
func ParseStrategy(name string) (Strategy, error) {
	want := strings.ReplaceAll(strings.ToLower(name), "-", "_")
	for _, s := range strategies {
		if want == s.Name {
			return s.Strategy, nil
		}
		for _, a := range s.also {
			if want == a {
				return s.Strategy, nil
			}
		}
	}
	return Strategy{}, conf.NotOneOf(name, append(StrategyNames(), "ddp", "zero_2", "zero_3", "fsdp", "hsdp")...)
}

// Transport connects ranks.
type Transport string

// Choices returns the names.
func (Transport) Choices() []string { return []string{"auto", "shm", "tcp", "mpi"} }

// Security is the protection of data between hosts.
type Security string

const (
	Encrypt Security = "encrypt"
	Sign    Security = "sign"
)

// Choices returns the names.
func (Security) Choices() []string { return []string{string(Encrypt), string(Sign)} }

// Config is the node `parallel`: how the model is sharded over ranks.
type Config struct {
	// Strategy says which parts of the training state are sharded. One of no_shard | zero_1 |
	// shard_grad_op | full_shard | hybrid_shard | hybrid_shard_zero2. Also accepted: ddp, zero_2, fsdp,
	// zero_3, hsdp, and FSDP's numbers 1 to 5. Default full_shard.
	Strategy string `yaml:"strategy"`
	// Mesh arranges the ranks as replicas of shard groups.
	Mesh MeshConfig `yaml:"mesh"`
	// PrefetchUnits is the number of units whose parameters are all-gathered ahead of the unit that
	// computes, in forward and backward. 0 saves memory, but computation waits for each all-gather.
	// Default 1.
	PrefetchUnits int `yaml:"prefetch_units"`
	// ReshardAfterForward says what happens to a unit's parameters after its forward pass: true frees
	// them, and backward all-gathers them; false keeps them; a number of ranks keeps one copy per
	// group of that many neighbors, which backward all-gathers within the group (ZeRO++'s hpZ). The
	// number must divide the size of the shard axis. Default true.
	ReshardAfterForward Reshard `yaml:"reshard_after_forward"`
	// Backend is the transport between ranks. One of auto | shm | tcp | mpi. auto is shared memory on
	// one machine; on several, shared memory within each machine and TCP between them. tcp is TCP between
	// all ranks. mpi needs ranks that mpirun started, one per process; it uses the networks of the MPI
	// library (MPICH or Open MPI), without encryption. Default auto.
	Backend Transport `yaml:"backend"`
	// Interface is the network interface for data between hosts: its name, the start of its name, or an
	// address of this host. With commas it names several, in NCCL's form: "^docker,lo" are those to
	// avoid, "=eth0" is a full name. Empty: NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME, and without them
	// the interface that leads to rank 0. Default "".
	Interface string `yaml:"interface"`
	// TransportSecurity protects data between hosts. One of encrypt | sign. encrypt: nobody on the path
	// can read or change it (AES-GCM). sign: nobody can change it, but anyone on the path can read it
	// (GMAC), at a lower cost. Data within a host is not affected. With --insecure data between hosts has
	// no protection. Default encrypt.
	TransportSecurity Security `yaml:"transport_security"`
	// Connections is the number of TCP connections over which a large transfer between two ranks is
	// spread, in each direction. 0 is one for two processors, up to 4. The limit is 8. Default 0.
	Connections int `yaml:"connections"`
	// WorldInvariant sums gradients in the same order for every number of ranks, so the bits of a run
	// do not depend on it. It costs communication in two cases: gradients that are not sharded are
	// reduced after each micro-batch instead of once a step, and hybrid strategies reduce each
	// micro-batch over all ranks instead of within a replica. Default true.
	WorldInvariant bool `yaml:"world_invariant"`
	// Timeout is the number of seconds that joining the run waits for other ranks, and that a rank may
	// take to reach a collective in which others wait, without progress: no row read, no unit computed.
	// A rank that computes or compiles has ten times that. Then the run ends with code 76, and the last
	// line names the rank, the collective and what the rank does. Preparing data and saving have no
	// limit. Default 120.
	Timeout float64 `yaml:"timeout_seconds"`
	// Heartbeat is the number of seconds without a heartbeat after which a rank is lost and the run
	// ends. A rank on the same machine is lost only if its process is stopped (SIGSTOP, debugger) for
	// half of that. At least 0.1. Default 1.
	Heartbeat float64 `yaml:"heartbeat_seconds"`
	// GraceSeconds is the number of seconds that the other ranks have to end after one has failed, and
	// that a rank has to acknowledge a signal. Then they are killed. Default 5.
	GraceSeconds float64 `yaml:"grace_seconds"`
	// StopSeconds is the number of seconds that a run has to finish its step and save a checkpoint
	// after Ctrl-C, SIGTERM, SIGUSR1 or SIGUSR2. Then it is killed. Default 600.
	StopSeconds float64 `yaml:"stop_seconds"`
}

// MeshConfig is the node `parallel.mesh`: the size of each axis. The product is the number of ranks.
type MeshConfig struct {
	// Replicate is the number of replicas of the sharded model; 0 is ranks / shard. With both 0,
	// hybrid_shard shards among the ranks of each machine (LOCAL_WORLD_SIZE) and replicates across
	// machines, as FSDP does; other strategies shard among all ranks. Default 0.
	Replicate int `yaml:"replicate"`
	// Shard is the number of ranks that shard one replica; 0 is ranks / replicate. Default 0.
	Shard int `yaml:"shard"`
}

// Default returns the defaults.
func Default() Config {
	return Config{Strategy: "full_shard", PrefetchUnits: 1, Backend: "auto", TransportSecurity: Encrypt, WorldInvariant: true, Timeout: 120, Heartbeat: 1, GraceSeconds: 5, StopSeconds: 600}
}

// Former returns keys of earlier versions, which config.yaml of an old run may have.
func (Config) Former() []string {
	return []string{
		"wrap", "param_persistence_threshold", "model_persistence_threshold", "forward_prefetch", "backward_prefetch",
		"prefetch_bucket_size", "max_live_parameters", "max_reuse_distance",
	}
}

// CollectiveTimeout returns Timeout.
func (c Config) CollectiveTimeout() time.Duration { return seconds(c.Timeout) }

// HeartbeatTimeout returns Heartbeat.
func (c Config) HeartbeatTimeout() time.Duration { return seconds(c.Heartbeat) }

// Grace returns GraceSeconds.
func (c Config) Grace() time.Duration { return seconds(c.GraceSeconds) }

// StopGrace returns StopSeconds.
func (c Config) StopGrace() time.Duration { return seconds(c.StopSeconds) }

// seconds caps s at 30 years, which fit a Duration.
func seconds(s float64) time.Duration { return time.Duration(min(s, 1e9) * float64(time.Second)) }

const maxConnections = 8

// Validate checks what does not depend on the world size.
func (c Config) Validate() error {
	if _, err := ParseStrategy(c.Strategy); err != nil {
		return fault.At("strategy", "%w", err)
	}
	switch {
	case c.Mesh.Replicate < 0 || c.Mesh.Shard < 0:
		return fault.Try(fault.At("mesh", "%dx%d has a negative size", c.Mesh.Replicate, c.Mesh.Shard), "0 (computed)")
	case c.PrefetchUnits < 0:
		return fault.At("prefetch_units", "is %d: it must be at least 0", c.PrefetchUnits)
	case c.Connections < 0 || c.Connections > maxConnections:
		return fault.Try(fault.At("connections", "is %d: the limit is %d", c.Connections, maxConnections), "0 (by the number of processors)")
	case !(c.Timeout > 0):
		return fault.At("timeout_seconds", "is %v: it must be positive", c.Timeout)
	case !(c.Heartbeat >= 0.1):
		return fault.At("heartbeat_seconds", "is %v: it must be at least 0.1", c.Heartbeat)
	case !(c.GraceSeconds > 0):
		return fault.At("grace_seconds", "is %v: it must be positive", c.GraceSeconds)
	case !(c.StopSeconds > 0):
		return fault.At("stop_seconds", "is %v: it must be positive", c.StopSeconds)
	}
	return nil
}

// AllGather returns when an Engine all-gathers parameters.
func (c Config) AllGather() AllGather {
	return AllGather{Prefetch: c.PrefetchUnits, Keep: c.ReshardAfterForward != ReshardAlways}
}

// ByMachine reports whether the mesh depends on the number of ranks per machine.
func (c Config) ByMachine() bool {
	s, err := ParseStrategy(c.Strategy)
	return err == nil && s.Replicas && c.Mesh == MeshConfig{}
}

// Resolve returns the strategy and the mesh for world ranks, local per machine (0: all on one). Errors
// name the key that is invalid.
func (c Config) Resolve(world, local int) (s Strategy, mesh MeshShape, err error) {
	if s, err = ParseStrategy(c.Strategy); err != nil {
		return s, mesh, fault.At("parallel.strategy", "%w", err)
	}
	replicate, shard := c.Mesh.Replicate, c.Mesh.Shard
	switch {
	case c.ByMachine() && local > 0 && world%local != 0:
		return s, mesh, fault.Try(fmt.Errorf("parallel: %s shards within a machine, but %d ranks per machine do not divide the %d ranks of this run", s.Name, local, world), "%s", fault.Set("parallel.mesh.shard", world))
	case c.ByMachine() && local > 0:
		replicate, shard = world/local, local
	case replicate == 0 && shard == 0:
		replicate, shard = 1, world
	case replicate == 0:
		replicate = world / shard
	case shard == 0:
		shard = world / replicate
	}
	switch {
	case replicate*shard != world && c.Mesh.Replicate > 0 && c.Mesh.Shard > 0:
		return s, mesh, fault.Try(fault.At("parallel.mesh", "needs %d ranks (replicate %d x shard %d), and this run has %d", replicate*shard, replicate, shard, world), "%s, or parallel.mesh.shard 0 (computed)", fault.Set(fault.Ranks, replicate*shard))
	case replicate*shard != world:
		return s, mesh, fault.Try(fault.At("parallel.mesh", "(replicate %d, shard %d) does not divide the %d ranks of this run", c.Mesh.Replicate, c.Mesh.Shard, world), "a divisor of %d, or 0 (computed)", world)
	case replicate > 1 && !s.Replicas:
		return s, mesh, fault.Try(fault.At("parallel.mesh", "has %d replicas, and strategy %s has none", replicate, s.Name), "hybrid_shard, or mesh.replicate 1")
	case s.Params && c.ReshardAfterForward > ReshardNever && shard%int(c.ReshardAfterForward) != 0:
		return s, mesh, fault.Try(fault.At("parallel.reshard_after_forward", "is %d, which does not divide the %d ranks that shard", c.ReshardAfterForward, shard), "%s, or a divisor", fault.Set("parallel.reshard_after_forward", "true"))
	}
	mesh[Replicate], mesh[Shard] = replicate, shard
	return s, mesh, nil
}
