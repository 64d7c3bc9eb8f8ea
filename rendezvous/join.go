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
	"trireme/flight"
	"trireme/internal/secureconn"
)

// Config configures Join. The zero value is the default.
type Config struct {
	// Timeout limits Connect in Join and each Store call; Await and Rendezvous only while a rank has not
	// joined. 0: five minutes.
	Timeout time.Duration
	// Heartbeat is the time without a heartbeat after which a rank is lost. A rank on the same machine
	// is lost if its process is stopped for half of that; while it runs, only after Timeout. 0: one
	// second.
	Heartbeat time.Duration
	// Recorder is this rank's; its state is sent with heartbeats. nil: none.
	Recorder *flight.Recorder
	// Received is called at rank 0 with the states of ranks on other machines, for flight.Parse, one call at
	// a time. nil: none.
	Received func(rank int, state []byte)
	// Note is called with a line when this rank has waited for others for a second, and then at growing
	// intervals, from any goroutine. It may be nil.
	Note func(string)
}

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

// notices are the times from the start of a wait at which Config.Note is called; then every ten minutes.
var notices = [...]time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute}

// notice returns the time of the n-th notice of a wait, from 0.
func notice(n int) time.Duration {
	if n < len(notices) {
		return notices[n]
	}
	return time.Duration(n-len(notices)+2) * 10 * time.Minute
}

// notify calls note with text at each notice until stop is called.
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

// offsets are the offsets from MASTER_PORT at which rank 0 may listen.
var offsets = [...]int{0, 1, 2, 3, 5, 8, 13, 21}

// Join is Connect within Config.Timeout, and Rendezvous.
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

// Rendezvous waits until all ranks have called it: for connected ranks as long as they live, for others up
// to Config.Timeout. If ctx is done it aborts the other ranks.
func (s *Store) Rendezvous(ctx context.Context) error {
	_, err := s.Await(ctx, joinKey, nil)
	if err != nil && ctx.Err() != nil {
		s.Abort(context.Cause(ctx), 0)
	}
	return err
}

// Connect connects this rank to the store, which rank 0 starts, and starts heartbeats. Only ctx limits it.
// If another rank is the cause, the error is a *Failure. Close the Store at the end.
func Connect(ctx context.Context, env Env, cfg Config) (*Store, error) {
	if env.WorldSize < 1 || env.Rank < 0 || env.Rank >= env.WorldSize {
		return nil, fmt.Errorf("rendezvous: rank %d of %d", env.Rank, env.WorldSize)
	}
	cfg = cfg.withDefaults()
	host, err := listenHost(ctx, env)
	if err != nil {
		return nil, err
	}
	if env.Secret == nil && env.mode() == secureconn.Plain {
		env.Secret = noSecretKey
	}
	if env.Secret == nil { // one machine: listenHost ensures it
		if env.Secret, err = UserSecret(); err != nil {
			return nil, err
		}
	}
	key, err := env.Key("store")
	if err != nil {
		return nil, fmt.Errorf("rendezvous: %w", err)
	}
	sealed := secureconn.Config{Key: key, Mode: env.mode()}

	var srv *server
	addrs := candidates(host, env.MasterPort)
	if env.Rank == 0 {
		l, err := listen(ctx, addrs, sealed)
		if err != nil {
			return nil, err
		}
		srv = newServer(l, env.WorldSize, cfg)
		addrs = []string{l.Addr().String()}
	}
	ch, err := dial(ctx, addrs, sealed, hello{env.Rank, env.WorldSize}, thisProcess(), cfg.Note)
	if err != nil {
		if srv != nil {
			srv.close(0)
		}
		return nil, err
	}
	return newStore(env, ch, srv, cfg), nil
}

const joinKey = "rendezvous/join"

// listenHost returns the address that rank 0 listens on: loopback on one machine.
func listenHost(ctx context.Context, env Env) (string, error) {
	if env.OneMachine() {
		return "127.0.0.1", nil
	}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, env.MasterAddr)
	if err != nil || len(ips) == 0 {
		return "", fault.Try(fmt.Errorf("rendezvous: MASTER_ADDR=%s does not resolve: %w", env.MasterAddr, err), "its IP address")
	}
	ip := ips[0]
	for _, a := range ips { // prefer IPv4, as all machines do
		if a.IP.To4() != nil {
			ip = a
			break
		}
	}
	if ip.IP.IsLoopback() {
		if env.GroupWorldSize > 1 && !env.Loopback {
			return "", &Failure{Kind: ErrRefused, Rank: -1, Text: fmt.Sprintf("rendezvous: MASTER_ADDR=%s resolves to %s here, which other machines cannot reach. try: MASTER_ADDR=ADDRESS of rank 0's network interface", env.MasterAddr, ip.IP)}
		}
		return ip.String(), nil
	}
	if env.Secret == nil && !env.Insecure {
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

func listen(ctx context.Context, addrs []string, cfg secureconn.Config) (*secureconn.Listener, error) {
	var errs []error
	for _, a := range addrs {
		l, err := secureconn.Listen(ctx, a, cfg, nil)
		if err == nil {
			return l, nil
		}
		errs = append(errs, err)
		if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EACCES) {
			break
		}
	}
	return nil, fault.Try(fmt.Errorf("rendezvous: rank 0 cannot listen on %s or %d later ports: %w", addrs[0], len(errs)-1, errs[len(errs)-1]), "another MASTER_PORT")
}
