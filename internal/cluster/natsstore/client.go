package natsstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"trireme/internal/cluster/store"
	"trireme/internal/secureconn"
)

// client implements store.Store.
type client struct {
	cfg    Config
	local  *Server // in this process, or nil
	nc     *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu       sync.Mutex
	link     context.Context // ends with the connection
	cut      context.CancelFunc
	failures map[int]error // why the last dial of an endpoint failed
	leases   []*store.Lease
}

var _ store.Store = (*client)(nil)

// strange is the time for which Connect tries an endpoint where another program, or another secret, answers:
// the launcher of an earlier job may be ending there.
const strange = 5 * time.Second

// Connect returns a client. local is the server of this process, or nil. It waits for the servers, until ctx
// ends, and reports what is wrong at each endpoint.
func Connect(ctx context.Context, cfg Config, local *Server) (store.Store, error) {
	return connect(ctx, cfg, local)
}

func connect(ctx context.Context, cfg Config, local *Server) (*client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &client{cfg: cfg, local: local, failures: map[int]error{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.link, c.cut = context.WithCancel(c.ctx)
	if err := c.connect(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *client) connect(ctx context.Context) (err error) {
	urls := make([]string, len(c.cfg.Endpoints))
	for i := range urls {
		urls[i] = "nats://" + endpointName(i)
	}
	c.nc, err = nats.Connect(strings.Join(urls, ","),
		nats.SetCustomDialer(dialer{c}), nats.SkipHostLookup(), nats.IgnoreDiscoveredServers(),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(100*time.Millisecond), nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.Timeout(5*time.Second),
		nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(c.disconnected),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return fmt.Errorf("natsstore: %w", err)
	}
	if c.js, err = jetstream.New(c.nc, jetstream.WithDefaultTimeout(try)); err != nil {
		return fmt.Errorf("natsstore: %w", err)
	}
	start := time.Now()
	for {
		attempt, cancel := context.WithTimeout(ctx, try)
		c.stream, err = c.open(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if wrong := c.wrong(); wrong != nil && time.Since(start) > strange {
			return wrong
		}
		select {
		case <-ctx.Done():
			return c.noAnswer(err, time.Since(start), context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// disconnected ends calls whose answer will not come.
func (c *client) disconnected(*nats.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut()
	c.link, c.cut = context.WithCancel(c.ctx)
}

// attempt returns a context that ends with ctx, with the connection, or after a while.
func (c *client) attempt(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, try)
	c.mu.Lock()
	link := c.link
	c.mu.Unlock()
	stop := context.AfterFunc(link, cancel)
	return ctx, func() { stop(); cancel() }
}

// open opens the stream, and creates it if this is the first client.
func (c *client) open(ctx context.Context) (jetstream.Stream, error) {
	if !c.nc.IsConnected() {
		return nil, nats.ErrNoServers
	}
	s, err := c.js.Stream(ctx, streamName)
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return s, err
	}
	return c.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: streamName, Subjects: []string{root + ">"},
		Storage: jetstream.MemoryStorage, Replicas: len(c.cfg.Endpoints),
		MaxMsgsPerSubject: history, Duplicates: 2 * time.Minute,
	})
}

func endpointName(i int) string { return "endpoint" + strconv.Itoa(i) + ":1" }

// dialer connects to the endpoint that a URL stands for.
type dialer struct{ c *client }

func (d dialer) Dial(_, address string) (net.Conn, error) {
	for i, e := range d.c.cfg.Endpoints {
		if address != endpointName(i) {
			continue
		}
		if d.c.local != nil && d.c.local.endpoint == i {
			return d.c.local.nats.InProcessConn()
		}
		conn, err := secureconn.Dial(d.c.ctx, e, d.c.cfg.secure(), helloClient)
		d.c.mu.Lock()
		d.c.failures[i] = err
		d.c.mu.Unlock()
		if err != nil {
			if d.c.cfg.Failed != nil {
				d.c.cfg.Failed(err)
			}
			return nil, err
		}
		return conn, nil
	}
	return nil, fmt.Errorf("natsstore: no endpoint %s", address)
}

// wrong returns an error if an endpoint answers but is not this job's.
func (c *client) wrong() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, e := range c.cfg.Endpoints {
		err := c.failures[i]
		var refused *secureconn.Refused
		if errors.As(err, &refused) {
			return fmt.Errorf("%s refuses this launcher: %w", e, err)
		}
		if errors.Is(err, secureconn.ErrStranger) {
			what := "is used by another program"
			if errors.Is(err, secureconn.ErrKey) {
				what = "is the store of launchers with another secret or --rdzv-id"
			}
			return &stranger{fmt.Sprintf("%s %s. try: the same secret and --rdzv-id on all hosts, or another port", e, what), err}
		}
	}
	return nil
}

// stranger is the error of an endpoint that is not this job's. Its text has no details of the connection.
type stranger struct {
	text  string
	cause error
}

func (s *stranger) Error() string { return s.text }
func (s *stranger) Unwrap() error { return s.cause }

// reason is why calls get no answer.
func (c *client) reason(err error) string {
	if c.nc.IsConnected() {
		if len(c.cfg.Endpoints) > 1 {
			return fmt.Sprintf("fewer than two of its servers at %s reach each other: %v", strings.Join(c.cfg.Endpoints, ", "), err)
		}
		return fmt.Sprintf("%s: %v", c.cfg.Endpoints[0], err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for i, e := range c.cfg.Endpoints {
		if f := c.failures[i]; f != nil {
			all = append(all, e+": "+f.Error())
		}
	}
	if len(all) == 0 {
		return "no connection to " + strings.Join(c.cfg.Endpoints, ", ")
	}
	return strings.Join(all, "; ")
}

func (c *client) noAnswer(err error, waited time.Duration, cause error) error {
	what := "start the launcher of " + c.cfg.Endpoints[0] + ", or check the name, the port and the firewall: trireme doctor --nnodes"
	if len(c.cfg.Endpoints) > 1 {
		what = "start the launchers of all three endpoints, or check the names, the ports and the firewall: trireme doctor --nnodes"
	}
	return fmt.Errorf("%w after %v (%s): %w. try: %s", store.ErrUnavailable, waited.Round(100*time.Millisecond), c.reason(err), cause, what)
}

// Close implements store.Store.
func (c *client) Close() error {
	c.cancel()
	c.mu.Lock()
	leases := c.leases
	c.leases = nil
	c.mu.Unlock()
	for _, l := range leases {
		l.Abandon()
	}
	if c.nc != nil {
		c.nc.Close()
	}
	return nil
}
