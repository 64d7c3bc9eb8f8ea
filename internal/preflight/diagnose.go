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

// CannotJoin explains why this host does not reach the endpoint at which the hosts meet, as a report of this
// host alone. conn has the key of the store there. failure is the error of the attempt.
func CannotJoin(ctx context.Context, name, endpoint string, conn secureconn.Config, facts host.Facts, failure error) *Report {
	r := &Report{Schema: schema, Hosts: []Host{{Name: name, Facts: facts}}, Links: [][]Link{{{}}}, Sums: []Sum{}, Findings: []Finding{}}
	at, _, err := net.SplitHostPort(endpoint)
	if err != nil {
		at = endpoint
	}
	add := func(check, text, try string) { r.add(host.Problem, check, text, try, 0) }
	addresses, unresolved := resolve(ctx, at)
	if unresolved != "" {
		add("names", fmt.Sprintf("%s does not resolve on %s (%s)", at, name, unresolved), fmt.Sprintf("its address in /etc/hosts of %s, or an address as --rdzv_endpoint", name))
		return r.end()
	}
	if ip, err := netip.ParseAddr(addresses[0]); err == nil && ip.IsLoopback() && !isLoopback(at) && at != "localhost" {
		add("names", fmt.Sprintf("%s is %s on %s, a loopback address", at, addresses[0], name), fmt.Sprintf("the network address of %s in /etc/hosts of %s instead of %s, or an address as --rdzv_endpoint", at, name, addresses[0]))
		return r.end()
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	c, err := secureconn.Dial(ctx, endpoint, conn, nil)
	if err == nil {
		c.Close()
		add("network", fmt.Sprintf("%s reaches %s now, but did not join in time: %v", name, endpoint, failure), "start all hosts at the same time, or a larger --timeout")
		return r.end()
	}
	var refused *secureconn.Refused
	switch s := stateOf(err); {
	case errors.As(err, &refused):
		add("network", fmt.Sprintf("%s refuses %s: %s", endpoint, name, refused.Text), "the same --nnodes on all hosts, and another --node_rank on each")
	case s == OtherKey:
		add("secret", fmt.Sprintf("%s has another secret than %s", name, endpoint), fmt.Sprintf("copy the secret's file to %s (mode 0600), or start all hosts with the same one", name))
	case s == OtherServer:
		add("network", fmt.Sprintf("another program answers at %s", endpoint), "another port in --rdzv_endpoint, on all hosts")
	case s == Refused:
		add("network", fmt.Sprintf("%s reaches the host of %s, which refuses the connection: nothing listens there, or a firewall rejects it", name, endpoint), "start the host with --node_rank 0 first, and allow TCP from this host there")
	case s == TimedOut:
		add("network", fmt.Sprintf("%s cannot reach %s (no answer within %v): a firewall drops the packets, or the address is wrong", name, endpoint, dialTime/time.Second*time.Second), fmt.Sprintf("ping %s, and allow TCP to that port on its host, or in the security group of the cloud", at))
	case s == NoRoute:
		add("network", fmt.Sprintf("%s has no route to %s", name, endpoint), "ip route get "+addresses[0])
	default:
		add("network", fmt.Sprintf("%s cannot join at %s: %v", name, endpoint, err), "ping "+at)
	}
	return r.end()
}

// NotJoined is the report of the host at the endpoint when another host did not join.
func NotJoined(name, endpoint string, facts host.Facts, missing string, waited time.Duration) *Report {
	r := &Report{Schema: schema, Hosts: []Host{{Name: name, Facts: facts}}, Links: [][]Link{{{}}}, Sums: []Sum{}, Findings: []Finding{}}
	r.add(host.Problem, "network", fmt.Sprintf("%s did not join at %s within %v", missing, endpoint, waited.Round(time.Second)),
		"see its own report; it needs the same --nnodes, --rdzv_endpoint and secret", 0)
	return r.end()
}
