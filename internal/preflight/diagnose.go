package preflight

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"trireme/internal/host"
	"trireme/internal/secureconn"
)

// Watcher finds out why this host does not reach the endpoint at which the hosts meet, while it tries.
type Watcher struct {
	endpoint string
	conn     secureconn.Config
	hopeless context.CancelFunc

	done chan struct{}
	err  error // the most telling one so far
}

const (
	watchTime  = 2 * time.Second // of a try
	watchPause = 500 * time.Millisecond
	otherKeys  = 8 // consecutive answers of another key after which waiting is hopeless
)

// Watch probes endpoint until ctx is done. conn has the key of the store there. If another secret answers for
// some seconds, it calls hopeless.
func Watch(ctx context.Context, endpoint string, conn secureconn.Config, hopeless context.CancelFunc) *Watcher {
	w := &Watcher{endpoint: endpoint, conn: conn, hopeless: hopeless, done: make(chan struct{})}
	go w.run(ctx)
	return w
}

func (w *Watcher) run(ctx context.Context) {
	defer close(w.done)
	other := 0
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, watchTime)
		c, err := secureconn.Dial(limited, w.endpoint, w.conn, nil)
		cancel()
		if err == nil {
			c.Close()
		}
		if err != nil && (w.err == nil || ctx.Err() == nil && telling(err) >= telling(w.err)) {
			w.err = err
		}
		if other++; stateOf(err) != OtherKey {
			other = 0
		}
		if other == otherKeys {
			w.hopeless()
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchPause):
		}
	}
}

// telling orders errors: a refused connection may only mean that the other host has not started, or has ended.
func telling(err error) int {
	var refused *secureconn.Refused
	switch {
	case err == nil:
		return 0
	case errors.As(err, &refused):
		return 4
	}
	switch stateOf(err) {
	case OtherKey, OtherServer:
		return 3
	case NoRoute, TimedOut:
		return 2
	}
	return 1
}

// Report returns the report of this host alone, which failed to join with an error. The watcher's context must be
// done.
func (w *Watcher) Report(ctx context.Context, name string, facts host.Facts, failure error) *Report {
	<-w.done
	r := Empty()
	r.Hosts = []Host{{Name: name, Facts: facts}}
	endpoint, err := w.endpoint, w.err
	at, _, split := net.SplitHostPort(endpoint)
	if split != nil {
		at = endpoint
	}
	add := func(check, text, try string) *Report {
		r.add(host.Problem, check, text, try, 0)
		return r.Judged()
	}
	addresses, unresolved := resolve(ctx, at)
	if unresolved != "" {
		return add("names", fmt.Sprintf("%s does not resolve on %s (%s)", at, name, unresolved), fmt.Sprintf("its address in /etc/hosts of %s, or an address as --rdzv_endpoint", name))
	}
	if ip, err := netip.ParseAddr(addresses[0]); err == nil && ip.IsLoopback() && !isLoopback(at) && at != "localhost" {
		return add("names", fmt.Sprintf("%s is %s on %s, a loopback address", at, addresses[0], name), fmt.Sprintf("the network address of %s in /etc/hosts of %s instead of %s, or an address as --rdzv_endpoint", at, name, addresses[0]))
	}
	var refused *secureconn.Refused
	if errors.As(err, &refused) {
		return add("network", fmt.Sprintf("%s refuses %s: %s", endpoint, name, refused.Text), "the same --nnodes on all hosts, and another --node_rank on each")
	}
	switch stateOf(err) {
	case OtherKey:
		return add("secret", fmt.Sprintf("%s has another secret than %s", name, endpoint), fmt.Sprintf("copy the secret's file to %s (mode 0600), or start all hosts with the same one", name))
	case OtherServer:
		return add("network", fmt.Sprintf("another program answers at %s", endpoint), "another port in --rdzv_endpoint, on all hosts")
	case Refused:
		return add("network", fmt.Sprintf("%s reaches the host of %s, but nothing listens there, or a firewall rejects the connection", name, endpoint), "start the host with --node_rank 0, and allow TCP from this host there")
	case TimedOut:
		return add("network", fmt.Sprintf("%s cannot reach %s (no answer): a firewall drops the packets, or the address is wrong", name, endpoint), fmt.Sprintf("ping %s, and allow TCP to that port on its host, or in the security group of the cloud", at))
	case NoRoute:
		return add("network", fmt.Sprintf("%s has no route to %s: the host is down, or on another network", name, endpoint), fmt.Sprintf("ping %s and ip route get %s", at, addresses[0]))
	}
	if err == nil {
		err = failure
	}
	return add("network", fmt.Sprintf("%s cannot join at %s: %v", name, endpoint, err), "start all hosts at the same time, or a larger --timeout")
}

// NotJoined is the report of the host at the endpoint when another host did not join.
func NotJoined(name, endpoint string, facts host.Facts, missing string, waited time.Duration) *Report {
	r := Empty()
	r.Hosts = []Host{{Name: name, Facts: facts}}
	r.add(host.Problem, "network", fmt.Sprintf("%s did not join at %s within %v", missing, endpoint, waited.Round(time.Second)),
		"see its own report; it needs the same --nnodes, --rdzv_endpoint and secret", 0)
	return r.Judged()
}
