package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"trireme/checkpoint"
	"trireme/collective"
	"trireme/collective/mpi"
	"trireme/collective/shm"
	"trireme/collective/tcp"
	"trireme/fault"
	"trireme/flight"
	"trireme/rendezvous"
)

var transports = []string{"auto", "shm", "tcp", "mpi"}

// world is a rank of this process in a job.
type world struct {
	collective.World // nil until it is open
	process          *process
	index            int // among the ranks of the process
	conn             *connection
	env              rendezvous.Env
	store            *rendezvous.Store // nil for one rank
	transport        string            // in use
	watching         sync.WaitGroup    // the store
}

// hostsTransport is tcp between hosts and shm within each.
const hostsTransport = "tcp between machines and shm within each"

// transportOf resolves a transport: auto is local if all ranks are in one process, else shm if they are on
// one Linux host, else tcp, with shm where ranks share a Linux host. One rank needs none.
func transportOf(name string, env rendezvous.Env) string {
	switch {
	case env.WorldSize == 1, name == "auto" && allLocal(env):
		return "local"
	case name != "auto":
		return name
	case runtime.GOOS != "linux":
		return "tcp"
	case env.OneMachine():
		return "shm"
	case env.GroupWorldSize < env.WorldSize:
		return hostsTransport
	}
	return "tcp"
}

// describeWorld describes the ranks, their transport and the rendezvous. If env is not Launched, this command
// starts the ranks, perProcess in each process.
func describeWorld(backend string, env rendezvous.Env, ranks, perProcess int) string {
	if ranks == 1 {
		return "world: 1 rank, local"
	}
	in := ""
	switch {
	case perProcess == ranks:
		in = " in 1 process"
	case perProcess > 1:
		in = fmt.Sprintf(" in %d processes", ranks/perProcess)
	}
	if !env.Launched {
		here := rendezvous.Env{WorldSize: ranks, LocalWorldSize: ranks, Ranks: perProcess}
		shared := ""
		if n := runtime.GOMAXPROCS(0); ranks > n {
			shared = fmt.Sprintf("\nnote: %d ranks share %s: same results, lower speed", ranks, number(int64(n), "processor"))
		}
		return fmt.Sprintf("world: %d ranks on this machine%s, started here, over %s%s", ranks, in, transportOf(backend, here), shared)
	}
	where := "this machine"
	if !env.OneMachine() {
		where = fmt.Sprintf("%d machines", env.GroupWorldSize)
	}
	by, _, _ := launcherOf(env)
	return fmt.Sprintf("world: %d ranks on %s%s, started by %s, over %s; rendezvous at %s",
		ranks, where, in, by, transportOf(backend, env), net.JoinHostPort(env.MasterAddr, strconv.Itoa(env.MasterPort)))
}

// launcherOf names the launcher of a job and its variables, and how to run trireme without it.
func launcherOf(env rendezvous.Env) (name, variables, without string) {
	switch env.Launcher {
	case "srun":
		return "srun", "SLURM_PROCID", "srun -n 1"
	case "mpirun":
		return "mpirun", "OMPI_COMM_WORLD_RANK or PMI_RANK", "mpirun -n 1"
	}
	return "another launcher", "RANK, WORLD_SIZE", "unset RANK and WORLD_SIZE"
}

// checkRanks compares --nproc with the number of ranks of another launcher.
func checkRanks(c *cobra.Command, env rendezvous.Env, nproc int) error {
	if !env.Launched || isOwnWorker() || !c.Flags().Changed("nproc") {
		return nil
	}
	by, variables, without := launcherOf(env)
	if nproc != env.WorldSize && (env.OneMachine() || nproc != env.LocalWorldSize) {
		return usage(fmt.Sprintf("--nproc is %d, but this is rank %d of %d started by %s (%s)", nproc, env.Rank, env.WorldSize, by, variables),
			fmt.Sprintf("without --nproc, or --set %s=%d to run that many ranks in each of its processes, or %s to start %d ranks here", processRanksKey, nproc, without, nproc))
	}
	if env.Rank == 0 {
		fmt.Fprintf(c.ErrOrStderr(), "--nproc %d has no effect: %s started the ranks (%s)\n", nproc, by, variables)
	}
	return nil
}

// open joins the other ranks and takes over the connection. A rank that is lost or calls Abort ends the world
// on all ranks at once.
func (w *world) open() (err error) {
	m := w.conn
	if w.store, err = m.join(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(m.ctx, m.waits.timeout)
	defer cancel()
	cfg := m.waits.collective(m)
	switch w.transport {
	case "local":
	case "shm":
		w.World, err = shm.Open(ctx, shm.Config{Config: cfg, Rank: w.env.Rank, Size: w.env.WorldSize, Bootstrap: w.store, Key: "world"})
	case "mpi":
		w.World, err = w.openMPI(m.ctx, cfg)
	default:
		w.World, err = w.openTCP(ctx, cfg)
	}
	if err == nil && w.store != nil {
		w.watching.Go(w.watch)
	}
	if faults.world != nil && err == nil {
		w.World = faults.world(w.env.Rank, w.World)
	}
	return err
}

// watch aborts collectives when the store reports a lost or failed rank, which may not have been in an
// operation.
func (w *world) watch() {
	<-w.store.Done()
	err := w.store.Err()
	if err == nil {
		return
	}
	f := &collective.Failure{Kind: collective.ErrPeerLost, Rank: w.env.Rank, Text: err.Error()}
	var lost *rendezvous.Failure
	if errors.As(err, &lost) && lost.Rank >= 0 {
		f.Lost = []int{lost.Rank}
	}
	w.World.Abort(f)
}

// Abort ends the world on every reachable rank, by transport and store.
func (w *world) Abort(cause error) {
	if w.World != nil {
		w.World.Abort(cause)
	}
	if w.store != nil {
		w.store.Abort(cause, codeOf(cause))
	}
}

// openTCP connects ranks by TCP, listening on an address that the others can reach.
func (w *world) openTCP(ctx context.Context, cfg collective.Config) (collective.World, error) {
	secret, err := w.store.Key("collective/tcp")
	if err != nil {
		return nil, err
	}
	c := tcp.Config{
		Config: cfg, Rank: w.env.Rank, Size: w.env.WorldSize, Bootstrap: w.store, Key: "world", Secret: secret,
		Mode: modeOf(w.env, w.process.security, w.store.Addr()), Connections: w.process.connections, Node: w.env.GroupRank,
	}
	if w.transport == hostsTransport {
		c.Local = func(ctx context.Context, ranks []int, failure *collective.FailureOnce, failed func(*collective.Failure)) (collective.Transport, error) {
			return shm.Connect(ctx, shm.Config{Config: cfg, Rank: c.Rank, Size: c.Size, Ranks: ranks, Bootstrap: w.store, Key: c.Key}, failure, failed)
		}
	}
	if !w.env.OneMachine() {
		if c.Host, err = w.process.network.Address(w.store.Addr()); err != nil {
			return nil, &Exit{CodeUsage, err}
		}
	}
	return tcp.Open(ctx, c)
}

// openMPI connects ranks by the MPI of the mpirun that started them.
func (w *world) openMPI(ctx context.Context, cfg collective.Config) (collective.World, error) {
	if n := len(w.process.conns); n > 1 {
		return nil, usage(fmt.Sprintf("parallel.backend is mpi, but this process runs %d ranks: MPI has one per process", n), "--set "+processRanksKey+"=1, or --set parallel.backend=auto")
	}
	world, err := mpi.Open(ctx, mpi.Config{Config: cfg, Rank: w.env.Rank, Size: w.env.WorldSize, OpenMPI: rendezvous.OpenMPI(os.LookupEnv)})
	if err != nil && fault.HasTry(err) {
		return nil, &Exit{CodeUsage, err}
	}
	return world, err
}

// Close leaves the world and the job.
func (w *world) Close() (err error) {
	if w.World != nil {
		err = w.World.Close()
	}
	<-w.conn.ready
	if w.conn.store == nil {
		return err
	}
	err = errors.Join(err, w.conn.store.Close())
	w.conn.done.Wait()
	w.watching.Wait()
	return err
}

// rankName names a rank with its host, if the store is here.
func (w *world) rankName(rank int) string {
	if w.store == nil {
		return fmt.Sprintf("rank %d", rank)
	}
	return w.store.RankName(rank)
}

// processGroup exchanges control messages between ranks outside collectives.
func (w *world) processGroup() checkpoint.ProcessGroup { return processGroup{w} }

type processGroup struct{ w *world }

func (g processGroup) Rank() int { return g.w.env.Rank }
func (g processGroup) Size() int { return g.w.env.WorldSize }

// AllGatherBytes exchanges a message among all ranks. It has no time-out, since a rank may work alone before
// it (save, tokenize).
func (g processGroup) AllGatherBytes(ctx context.Context, message []byte) ([][]byte, error) {
	if g.w.store == nil {
		return [][]byte{message}, nil
	}
	defer g.w.conn.recorder.Leave(g.w.conn.recorder.Enter(flight.Waiting, "an agreement"))
	return g.w.store.Await(ctx, "agreement", message)
}
