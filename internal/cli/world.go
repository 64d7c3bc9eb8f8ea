package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

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
	env       rendezvous.Env
	store     *rendezvous.Store // nil in a world of one
	transport string            // that was taken
	release   func()
	watching  sync.WaitGroup // on the store
}

// openWorld joins the world that the environment describes, and ties this process to its
// launcher. transport auto takes memory where all ranks are on one Linux host, and tcp
// elsewhere; a world of one needs neither. timeout (0: the default) is how long ranks wait
// for one another, to join and in an operation. A rank that is lost, or that calls Abort, ends
// the world on every other at once.
func openWorld(ctx context.Context, env rendezvous.Env, transport string, timeout time.Duration) (_ *world, err error) {
	w := &world{env: env, transport: transport}
	if w.release, err = launch.TieToParent(os.LookupEnv, nil); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.leave())
		}
	}()
	cfg := collective.Config{Timeout: timeout}
	if env.WorldSize == 1 {
		worlds, err := collective.NewLocal(1, cfg)
		if err != nil {
			return nil, err
		}
		w.World, w.transport = worlds[0], "local"
		return w, nil
	}
	if w.store, err = rendezvous.Join(ctx, env, rendezvous.Config{Timeout: timeout}); err != nil {
		return nil, err
	}
	if transport == "auto" {
		w.transport = "tcp"
		if env.OneMachine() && runtime.GOOS == "linux" {
			w.transport = "shm"
		}
	}
	switch w.transport {
	case "shm":
		w.World, err = shm.Open(ctx, shm.Config{Config: cfg, Rank: env.Rank, Size: env.WorldSize, Exchange: w.store, Key: "world"})
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
		w.store.Abort(cause)
	}
}

// openTCP listens where the other ranks can reach this one.
func (w *world) openTCP(ctx context.Context, cfg collective.Config) (collective.World, error) {
	secret, err := w.store.Key("collective/tcp")
	if err != nil {
		return nil, err
	}
	c := tcp.Config{Config: cfg, Rank: w.env.Rank, Size: w.env.WorldSize, Exchange: w.store, Key: "world", Secret: secret, Job: w.env.RunID}
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
	if w.store == nil {
		return nil
	}
	err := w.store.Close()
	w.watching.Wait()
	return err
}

// agreement is how ranks agree on small things outside the collectives.
func (w *world) agreement() checkpoint.Agreement { return agreement{w} }

type agreement struct{ w *world }

func (a agreement) Rank() int { return a.w.env.Rank }
func (a agreement) Size() int { return a.w.env.WorldSize }

// Gather gives every rank's message to every rank. It has no time-out: what a rank does alone
// before it (a save, tokenizing) may take as long as that rank lives.
func (a agreement) Gather(ctx context.Context, message []byte) ([][]byte, error) {
	if a.w.store == nil {
		return [][]byte{message}, nil
	}
	return a.w.store.Await(ctx, "agreement", message)
}
