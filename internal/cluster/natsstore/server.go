package natsstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"trireme/internal/flock"
	"trireme/internal/secureconn"
)

const (
	memory  = 1 << 30 // limit of all entries with their history, bytes
	payload = 2 << 20 // limit of a message, above store.MaxValue with its headers
)

// Server is a server of the job's store. Its methods are safe for concurrent use.
type Server struct {
	endpoint int
	nats     *server.Server
	listen   *secureconn.Listener
	routes   []net.Listener // on 127.0.0.1, one per peer
	dir      *directory
	reaper   *reaper
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	wg       sync.WaitGroup
}

// Serve starts the server of cfg.Endpoints[endpoint], which listens on addr, an address of this host.
// Clients reach it at once; with three servers calls succeed when two have met.
func Serve(ctx context.Context, cfg Config, endpoint int, addr string) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Server{endpoint: endpoint}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.start(ctx, cfg, endpoint, addr); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, cfg Config, endpoint int, addr string) (err error) {
	s.listen, err = secureconn.Listen(ctx, addr, cfg.secure(), func(hello []byte, _ net.Addr) error {
		if bytes.Equal(hello, helloClient) || bytes.Equal(hello, helloRoute) {
			return nil
		}
		return errors.New("this is the store of the job's launchers. try: the same version of trireme on all hosts")
	})
	if err != nil {
		return listenError(addr, err)
	}
	if s.dir, err = newDirectory(); err != nil {
		return err
	}
	opts := &server.Options{
		ServerName: "endpoint-" + strconv.Itoa(endpoint),
		DontListen: true, NoLog: true, NoSigs: true,
		JetStream: true, JetStreamMaxMemory: memory, JetStreamMaxStore: memory, StoreDir: s.dir.path,
		MaxPayload: payload, PingInterval: 2 * time.Second, MaxPingsOut: 2,
	}
	if len(cfg.Endpoints) > 1 {
		if err := s.cluster(opts, cfg, endpoint); err != nil {
			return err
		}
	}
	if s.nats, err = server.NewServer(opts); err != nil {
		return fmt.Errorf("natsstore: the store's server does not start: %w", err)
	}
	var problems problems
	s.nats.SetLoggerV2(&problems, false, false, false)
	s.nats.Start()
	if !s.nats.ReadyForConnections(10*time.Second) || !s.nats.JetStreamEnabled() {
		return fmt.Errorf("natsstore: the store's server does not start: %s", problems.last())
	}
	s.wg.Go(s.accept)
	s.reaper = startReaper(s.ctx, cfg, s)
	return nil
}

// cluster adds the routes to the other servers.
func (s *Server) cluster(opts *server.Options, cfg Config, endpoint int) error {
	tls, err := routeTLS(cfg.Key)
	if err != nil {
		return err
	}
	// NATS does not start routes without a port for clients, so this has one, with the same protection.
	opts.DontListen, opts.Host, opts.Port = false, "127.0.0.1", server.RANDOM_PORT
	opts.TLS, opts.TLSVerify, opts.TLSConfig, opts.TLSHandshakeFirst, opts.TLSTimeout = true, true, tls.Clone(), true, 5
	opts.Cluster = server.ClusterOpts{
		Name: "trireme", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoAdvertise: true, PoolSize: -1,
		TLSConfig: tls, TLSTimeout: 5, AuthTimeout: 5, PingInterval: time.Second, MaxPingsOut: 2,
		Compression: server.CompressionOpts{Mode: server.CompressionOff},
	}
	for i, peer := range cfg.Endpoints {
		if i == endpoint {
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("natsstore: a port for the route to %s: %w", peer, err)
		}
		s.routes = append(s.routes, l)
		opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats-route", Host: l.Addr().String()})
		s.wg.Go(func() {
			for {
				in, err := l.Accept()
				if err != nil {
					return
				}
				s.wg.Go(func() {
					defer in.Close()
					if out, err := secureconn.Dial(s.ctx, peer, cfg.secure(), helloRoute); err == nil {
						s.join(in, out)
					}
				})
			}
		})
	}
	return nil
}

// accept connects authenticated connections to the server.
func (s *Server) accept() {
	for {
		c, err := s.listen.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() {
			defer c.Close()
			inner, err := s.inner(c.Hello())
			if err == nil {
				s.join(c, inner)
			}
		})
	}
}

func (s *Server) inner(hello []byte) (net.Conn, error) {
	if bytes.Equal(hello, helloClient) {
		return s.nats.InProcessConn()
	}
	addr := s.nats.ClusterAddr()
	if addr == nil {
		return nil, errors.New("natsstore: one server has no routes")
	}
	return net.DialTimeout("tcp", addr.String(), time.Second)
}

// join copies between two connections until one ends, and closes both.
func (s *Server) join(a, b net.Conn) {
	stop := context.AfterFunc(s.ctx, func() { a.Close(); b.Close() })
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(a, b)
		a.Close()
		b.Close()
	}()
	io.Copy(b, a)
	a.Close()
	b.Close()
	<-done
}

// Addr returns the address on which the server listens.
func (s *Server) Addr() net.Addr { return s.listen.Addr() }

// Close stops the server and removes its files.
func (s *Server) Close() error {
	s.cancel()
	if s.reaper != nil {
		s.reaper.wait()
	}
	if s.nats != nil {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
	}
	if s.listen != nil {
		s.listen.Close()
	}
	for _, l := range s.routes {
		l.Close()
	}
	s.wg.Wait()
	if s.dir != nil {
		return s.dir.remove()
	}
	return nil
}

// problems keeps the last error that the server logs.
type problems struct {
	mu   sync.Mutex
	text string
}

func (p *problems) keep(format string, v ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = fmt.Sprintf(format, v...)
}

func (p *problems) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.text == "" {
		return "no answer within 10 seconds"
	}
	return p.text
}

func (p *problems) Noticef(string, ...any)         {}
func (p *problems) Warnf(string, ...any)           {}
func (p *problems) Fatalf(format string, v ...any) { p.keep(format, v...) }
func (p *problems) Errorf(format string, v ...any) { p.keep(format, v...) }
func (p *problems) Debugf(string, ...any)          {}
func (p *problems) Tracef(format string, v ...any) {}

// directory is a private temporary directory of a server. A process that was killed leaves its directory, which
// the next server removes.
type directory struct {
	path string
	lock *os.File
}

const directoryPattern = "trireme-store-*"

func newDirectory() (*directory, error) {
	removeStale()
	path, err := os.MkdirTemp("", directoryPattern)
	if err != nil {
		return nil, fmt.Errorf("natsstore: a directory for the store's server: %w. try: TMPDIR=DIR with free space", err)
	}
	lock, held, err := flock.TryLock(filepath.Join(path, "lock"), 0o600)
	if err != nil || !held {
		os.RemoveAll(path)
		return nil, fmt.Errorf("natsstore: lock %s: %w", path, err)
	}
	return &directory{path, lock}, nil
}

// removeStale removes directories of processes that do not run. New ones may not have their lock yet.
func removeStale() {
	all, _ := filepath.Glob(filepath.Join(os.TempDir(), directoryPattern))
	for _, path := range all {
		st, err := os.Lstat(path)
		if err != nil || !st.IsDir() || time.Since(st.ModTime()) < time.Minute {
			continue
		}
		lock, held, err := flock.TryLock(filepath.Join(path, "lock"), 0o600)
		if err != nil {
			continue // of another user
		}
		if held {
			os.RemoveAll(path)
		}
		lock.Close()
	}
}

func (d *directory) remove() error {
	err := os.RemoveAll(d.path)
	d.lock.Close()
	return err
}

func listenError(addr string, err error) error {
	host, port, _ := net.SplitHostPort(addr)
	return fmt.Errorf("the store of the job's launchers cannot listen on %s port %s: %w. try: another port in --rdzv-endpoint (or --master-port) on all hosts, or an address of this host", host, port, err)
}
