package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"trireme/fault"
)

// Config is how to join; its zero value is the default.
type Config struct {
	// Timeout is how long to wait for other ranks, in Join and in each call of the Store that
	// has a limit. 0: five minutes.
	Timeout time.Duration
	// Heartbeat is how long a rank may be silent before it is lost. A rank whose process can be
	// looked at (the same machine) is lost when it was stopped for half of that, and, as long as it
	// runs, after Timeout only. 0: one second.
	Heartbeat time.Duration
	// Note gets one line when this rank has waited for others for a second, and then ever more
	// rarely. It may be called from any goroutine. nil: nobody.
	Note func(string)
}

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	if c.Timeout <= 0 {
		c.Timeout = 5 * time.Minute
	}
	if c.Heartbeat <= 0 {
		c.Heartbeat = time.Second
	}
	if c.Note == nil {
		c.Note = func(string) {}
	}
	return c
}

// notices are the times from the beginning of a wait at which it is told; then each tenth minute.
var notices = [...]time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute}

// notice is when the n-th telling of a wait is due, from 0.
func notice(n int) time.Duration {
	if n < len(notices) {
		return notices[n]
	}
	return time.Duration(n-len(notices)+2) * 10 * time.Minute
}

// notify notes text when notices are due, until stop is called.
func notify(note func(string), text string) (stop func()) {
	began, done := time.Now(), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-time.After(time.Until(began.Add(notice(n)))):
				note(text)
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// offsets from MASTER_PORT where rank 0 may listen.
var offsets = [...]int{0, 1, 2, 3, 5, 8, 13, 21}

// Join is Connect and Meet, within Config.Timeout.
func Join(ctx context.Context, env Env, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	limited, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	s, err := Connect(limited, env, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.Rendezvous(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Rendezvous returns when all ranks have called it. Those that are connected are waited for as long as
// they live, others for Config.Timeout. When ctx ends the other ranks are told.
func (s *Store) Rendezvous(ctx context.Context) error {
	_, err := s.Await(ctx, joinKey, nil)
	if err != nil && ctx.Err() != nil {
		s.Abort(context.Cause(ctx), 0)
	}
	return err
}

// Connect connects this rank with the store, which rank 0 starts; from then on others see that it
// lives. It has no limit but ctx, with which it ends at once. Errors are a *Failure where another
// rank is to blame. Close the Store at the end.
func Connect(ctx context.Context, env Env, cfg Config) (*Store, error) {
	if env.WorldSize < 1 || env.Rank < 0 || env.Rank >= env.WorldSize {
		return nil, fmt.Errorf("rendezvous: rank %d in a world of %d", env.Rank, env.WorldSize)
	}
	cfg = cfg.withDefaults()
	host, err := listenHost(ctx, env)
	if err != nil {
		return nil, err
	}
	if env.Secret == nil { // Read has refused what is not one machine
		if env.Secret, err = userSecret(); err != nil {
			return nil, err
		}
	}
	key, err := env.Key("store")
	if err != nil {
		return nil, fmt.Errorf("rendezvous: %w", err)
	}

	var srv *server
	addrs := candidates(host, env.MasterPort)
	if env.Rank == 0 {
		l, err := listen(ctx, addrs)
		if err != nil {
			return nil, err
		}
		srv = newServer(l, env.WorldSize, key, cfg)
		addrs = []string{l.Addr().String()}
	}
	ch, err := dial(ctx, addrs, key, hello{env.Rank, env.WorldSize, thisProcess()}, cfg.Note)
	if err != nil {
		if srv != nil {
			srv.close(0)
		}
		return nil, err
	}
	return newStore(env, ch, srv, cfg), nil
}

// joinKey is what all ranks gather first.
const joinKey = "rendezvous/join"

// listenHost is the address that rank 0 listens on: loopback if that is enough.
func listenHost(ctx context.Context, env Env) (string, error) {
	if env.OneMachine() {
		return "127.0.0.1", nil
	}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, env.MasterAddr)
	if err != nil || len(ips) == 0 {
		return "", fault.Try(fmt.Errorf("rendezvous: MASTER_ADDR=%s does not resolve: %w", env.MasterAddr, err), "its address in numbers")
	}
	ip := ips[0]
	for _, a := range ips { // every machine takes the same kind of address
		if a.IP.To4() != nil {
			ip = a
			break
		}
	}
	if ip.IP.IsLoopback() {
		if env.GroupWorldSize > 1 {
			return "", &Failure{Kind: ErrRefused, Rank: -1, Text: fmt.Sprintf("rendezvous: MASTER_ADDR=%s is %s here, which other machines cannot reach. try: MASTER_ADDR=ADDRESS of rank 0's network interface", env.MasterAddr, ip.IP)}
		}
		return ip.String(), nil
	}
	if env.Secret == nil {
		return "", &Failure{Kind: ErrRefused, Rank: -1, Text: noSecret(env)}
	}
	return ip.String(), nil
}

func candidates(host string, port int) []string {
	var as []string
	for _, o := range offsets {
		if p := port + o; port == 0 && o == 0 || p > 0 && p < 65536 && port > 0 {
			as = append(as, net.JoinHostPort(host, strconv.Itoa(p)))
		}
	}
	return as
}

// listen takes the first free candidate.
func listen(ctx context.Context, addrs []string) (net.Listener, error) {
	var lc net.ListenConfig
	var errs []error
	for _, a := range addrs {
		l, err := lc.Listen(ctx, "tcp", a)
		if err == nil {
			return l, nil
		}
		errs = append(errs, err)
		if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EACCES) {
			break
		}
	}
	return nil, fault.Try(fmt.Errorf("rendezvous: rank 0 cannot listen on %s or the %d ports tried after it: %w", addrs[0], len(errs)-1, errs[len(errs)-1]), "another MASTER_PORT")
}
