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
	"trireme/collective/shm"
	"trireme/collective/tcp"
	"trireme/launch"
	"trireme/rendezvous"
)

// transports are the names that --transport takes.
var transports = []string{"auto", "shm", "tcp"}

// world is this process's place among the ranks of a job.
type world struct {
	collective.World
	meeting   *connection
	env       rendezvous.Env
	store     *rendezvous.Store // nil in a world of one
	transport string            // that was taken
	release   func()
	watching  sync.WaitGroup // on the store
}

// transportOf is what ranks are connected by where a configuration says name: auto takes memory
// where all ranks are on one Linux host, and tcp elsewhere; a world of one needs neither.
func transportOf(name string, env rendezvous.Env) string {
	switch {
	case env.WorldSize == 1:
		return "local"
	case name != "auto":
		return name
	case env.OneMachine() && runtime.GOOS == "linux":
		return "shm"
	}
	return "tcp"
}

// describeWorld says how many ranks there are, what connects them and how they meet. env is this
// rank's; where this command starts the ranks it is that of none.
func describeWorld(backend string, env rendezvous.Env, ranks int) string {
	if ranks == 1 {
		return "world: 1 rank, local"
	}
	if !env.Launched {
		here := rendezvous.Env{WorldSize: ranks, LocalWorldSize: ranks}
		return fmt.Sprintf("world: %d ranks on this machine, started here, over %s", ranks, transportOf(backend, here))
	}
	where := "this machine"
	if !env.OneMachine() {
		where = fmt.Sprintf("%d machines", env.GroupWorldSize)
	}
	return fmt.Sprintf("world: %d ranks on %s, started by another launcher, over %s; they meet at %s",
		ranks, where, transportOf(backend, env), net.JoinHostPort(env.MasterAddr, strconv.Itoa(env.MasterPort)))
}

// checkRanks compares --nproc, where it is given, with the world that another launcher has started.
func checkRanks(c *cobra.Command, env rendezvous.Env, nproc int) error {
	if !env.Launched || launch.Tied(os.LookupEnv) || !c.Flags().Changed("nproc") {
		return nil
	}
	if nproc != env.WorldSize && (env.OneMachine() || nproc != env.LocalWorldSize) {
		return usage(fmt.Sprintf("--nproc is %d, but this is rank %d of %d of another launcher (RANK, WORLD_SIZE): a rank starts no processes", nproc, env.Rank, env.WorldSize),
			fmt.Sprintf("without --nproc; or, for %d processes of this command, unset RANK and WORLD_SIZE", nproc))
	}
	if env.Rank == 0 {
		fmt.Fprintf(c.ErrOrStderr(), "--nproc %d has no effect: another launcher has started the ranks (RANK, WORLD_SIZE)\n", nproc)
	}
	return nil
}

// openWorld joins the world of a meeting, which it ends, and ties this process to its launcher. A
// rank that is lost, or that calls Abort, ends the world on every other at once.
func openWorld(m *connection, transport string) (_ *world, err error) {
	ctx, env := m.ctx, m.env
	w := &world{meeting: m, env: env, transport: transportOf(transport, env), release: func() {}}
	m.taken = true
	defer func() {
		if err != nil {
			if err = m.cause(err); m.store != nil {
				m.store.Abort(err, codeOf(err))
			}
			err = errors.Join(err, w.leave())
		}
	}()
	if w.release, err = launch.TieToParent(os.LookupEnv, nil); err != nil {
		return nil, err
	}
	cfg := collective.Config{Timeout: m.waits.timeout}
	if env.WorldSize == 1 {
		worlds, err := collective.NewLocal(1, cfg)
		if err != nil {
			return nil, err
		}
		w.World = worlds[0]
		return w, nil
	}
	if w.store, err = m.join(); err != nil {
		return nil, err
	}
	switch w.transport {
	case "shm":
		w.World, err = shm.Open(ctx, shm.Config{Config: cfg, Rank: env.Rank, Size: env.WorldSize, Bootstrap: w.store, Key: "world"})
	default:
		w.World, err = w.openTCP(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	w.watching.Go(w.watch)
	return w, nil
}

// watch ends the collectives when the store hears of a rank that is lost or has failed: it
// may not have been in the middle of an operation.
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

// Abort ends the world on every rank that can be reached, by either way.
func (w *world) Abort(cause error) {
	w.World.Abort(cause)
	if w.store != nil {
		w.store.Abort(cause, codeOf(cause))
	}
}

// openTCP listens where the other ranks can reach this one.
func (w *world) openTCP(ctx context.Context, cfg collective.Config) (collective.World, error) {
	secret, err := w.store.Key("collective/tcp")
	if err != nil {
		return nil, err
	}
	c := tcp.Config{Config: cfg, Rank: w.env.Rank, Size: w.env.WorldSize, Bootstrap: w.store, Key: "world", Secret: secret, Job: w.env.RunID}
	if !w.env.OneMachine() {
		if c.Host, err = addressTowards(w.store.Addr()); err != nil {
			return nil, err
		}
	}
	return tcp.Open(ctx, c)
}

// addressTowards is this machine's address on the way to a host: that of the interface which
// the route to it leaves by. Nothing is sent.
func addressTowards(hostPort string) (string, error) {
	conn, err := net.Dial("udp", hostPort)
	if err != nil {
		return "", fmt.Errorf("finding the interface that leads to %s: %w", hostPort, err)
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).IP.String(), nil
}

// Close leaves the world, and then the job.
func (w *world) Close() error {
	return errors.Join(w.World.Close(), w.leave())
}

func (w *world) leave() error {
	defer w.release()
	<-w.meeting.ready
	if w.meeting.store == nil {
		return nil
	}
	err := w.meeting.store.Close()
	w.meeting.done.Wait()
	w.watching.Wait()
	return err
}

// processGroup exchanges control messages between ranks outside the collectives.
func (w *world) processGroup() checkpoint.ProcessGroup { return processGroup{w} }

type processGroup struct{ w *world }

func (g processGroup) Rank() int { return g.w.env.Rank }
func (g processGroup) Size() int { return g.w.env.WorldSize }

// AllGatherBytes gives every rank's message to every rank. It has no time-out: what a rank does alone
// before it (a save, tokenizing) may take as long as that rank lives.
func (g processGroup) AllGatherBytes(ctx context.Context, message []byte) ([][]byte, error) {
	if g.w.store == nil {
		return [][]byte{message}, nil
	}
	return g.w.store.Await(ctx, "agreement", message)
}
