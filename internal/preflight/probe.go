package preflight

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"trireme/internal/secureconn"
)

const (
	dialTime    = 3 * time.Second // for a connection
	messageTime = time.Second     // for the answer to a message
	pings       = 12
	resolveTime = 3 * time.Second
)

// sizes of messages. One that exceeds the largest packet of a link between two hosts is lost, also if TCP
// chose its packets by the hosts' own interfaces.
var sizes = []int{256, 1300, 4000, 8500, 64 << 10}

// prober is this host's side of the probes.
type prober struct {
	cfg   *Config
	conn  secureconn.Config
	hosts []about
}

// connectAll probes every other host, concurrently.
func (p *prober) connectAll(ctx context.Context) []Link {
	links := make([]Link, p.cfg.N)
	var wg sync.WaitGroup
	for j := range links {
		if j == p.cfg.Index {
			continue
		}
		wg.Go(func() {
			names, nameErr := resolve(ctx, p.hosts[j].hostname())
			links[j] = p.connect(ctx, j)
			links[j].Names, links[j].NameErr = names, nameErr
		})
	}
	wg.Wait()
	return links
}

func (p *prober) dial(ctx context.Context, j int) (*secureconn.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	return secureconn.Dial(ctx, p.hosts[j].Listen, p.conn, nil)
}

// connect probes one host.
func (p *prober) connect(ctx context.Context, j int) (l Link) {
	if p.hosts[j].Err != "" {
		return Link{State: Failed, Err: "it cannot listen: " + p.hosts[j].Err}
	}
	c, err := p.dial(ctx, j)
	if err != nil {
		return Link{State: stateOf(err), Err: err.Error()}
	}
	defer c.Close()
	l.State = Connected
	if l.Latency, l.Offset, err = ping(c, p.cfg.Now); err != nil {
		return Link{State: stateOf(err), Err: err.Error()}
	}
	for _, n := range sizes {
		if _, err := call(c, opData, n, messageTime); err != nil {
			l.Err = err.Error()
			break
		}
		l.Largest = n
	}
	return l
}

// stateOf classifies an error of a connection.
func stateOf(err error) LinkState {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EINVAL):
		return NoRoute // EINVAL and EACCES: blackhole and prohibit routes
	case errors.Is(err, secureconn.ErrKey):
		return OtherKey
	case errors.Is(err, secureconn.ErrStranger):
		return OtherServer
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return TimedOut
	}
	return Failed
}

// call sends a frame of n bytes and returns the answer, within a time limit.
func call(c *secureconn.Conn, op byte, n int, limit time.Duration) (answer int64, err error) {
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return 0, err
	}
	b := make([]byte, n)
	b[0] = op
	if err := c.WriteFrame(ad, b); err != nil {
		return 0, err
	}
	var in [8]byte
	if _, err := c.ReadFrame(ad, in[:]); err != nil {
		return 0, err
	}
	return int64(binary.LittleEndian.Uint64(in[:])), nil
}

// ping returns the shortest round trip of some, and the offset of the other's clock by it: positive if the
// other is ahead.
func ping(c *secureconn.Conn, now func() time.Time) (latency, offset time.Duration, err error) {
	for i := range pings {
		began, before := time.Now(), now()
		a, err := call(c, opPing, 64, messageTime)
		if err != nil {
			return 0, 0, err
		}
		if took := time.Since(began); i == 0 || took < latency {
			latency = took
			offset = time.Unix(0, a).Sub(before.Add(took / 2))
		}
	}
	return latency, offset, nil
}

// resolve returns the addresses of a name on this host.
func resolve(ctx context.Context, name string) (addresses []string, failure string) {
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	all, err := net.DefaultResolver.LookupHost(ctx, name)
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return nil, "no such host"
	case err != nil && ctx.Err() != nil:
		return nil, "no answer within " + resolveTime.String()
	case err != nil:
		return nil, err.Error()
	}
	return all, ""
}
