package cluster

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"trireme/fault"
	"trireme/internal/netif"
	"trireme/rendezvous"
)

// resolveTimeout limits the resolution of an endpoint's name.
const resolveTimeout = 5 * time.Second

// site has the facts about this host that decide where the store runs.
type site struct {
	name       string // of the host
	interfaces []netif.Interface
	lookup     func(ctx context.Context, host string) ([]netip.Addr, error)
}

func thisSite() (s site, err error) {
	if s.interfaces, err = netif.List(); err != nil {
		return s, fmt.Errorf("cluster: %w", err)
	}
	if s.name, err = os.Hostname(); err != nil {
		return s, fmt.Errorf("cluster: %w", err)
	}
	s.lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}
	return s, nil
}

// IsThisHost reports whether a name or an address is of this host.
func IsThisHost(ctx context.Context, host string) bool {
	s, err := thisSite()
	return err == nil && s.own(ctx, host)
}

// ServedAt returns the address of this host at which it serves an endpoint of that name or address.
func ServedAt(ctx context.Context, host string) (string, error) {
	s, err := thisSite()
	if err != nil {
		return "", err
	}
	return s.listen(ctx, host, "")
}

// has reports whether an address is one of this host.
func (s *site) has(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsLoopback() || slices.ContainsFunc(s.interfaces, func(i netif.Interface) bool {
		return slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return p.Addr().Unmap().WithZone("") == a.WithZone("") })
	})
}

// own reports whether a name or address is of this host: one of its addresses, its name, or one of these with
// or without the domain.
func (s *site) own(ctx context.Context, host string) bool {
	if sameName(host, s.name) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	as, err := s.lookup(ctx, host)
	return err == nil && slices.ContainsFunc(as, s.has)
}

// sameName reports whether two names of hosts are equal, with or without a domain.
func sameName(a, b string) bool {
	a, b = strings.ToLower(strings.TrimSuffix(a, ".")), strings.ToLower(strings.TrimSuffix(b, "."))
	if _, err := netip.ParseAddr(a); err == nil {
		return a == b
	}
	return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}

// listen returns the address of this host at which an endpoint of its own is served. A name that resolves to a
// loopback address here, as Debian's installer writes to /etc/hosts, is another address for other hosts.
func (s *site) listen(ctx context.Context, host, local string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	as, err := s.lookup(ctx, host)
	if err == nil {
		slices.SortStableFunc(as, func(a, b netip.Addr) int { return a.Unmap().BitLen() - b.Unmap().BitLen() }) // IPv4 first
		for _, a := range as {
			if a = a.Unmap(); s.has(a) && (!a.IsLoopback() || rendezvous.IsLoopback(host)) {
				return a.String(), nil
			}
		}
	}
	if local != "" {
		return local, nil
	}
	var all []string
	for _, a := range netif.Network(s.interfaces) {
		if a.Is4() {
			all = append(all, a.String())
		}
	}
	switch len(all) {
	case 0:
		return "127.0.0.1", nil
	case 1:
		return all[0], nil
	}
	return "", fault.Try(fmt.Errorf("the host %s of --rdzv-endpoint has no address of its own here, and this host has %s", host, strings.Join(all, ", ")), "one of them as --local-addr, or in --rdzv-endpoint on all hosts")
}

// servable returns the indices of the endpoints that this launcher may serve. Of several launchers on one host,
// each serves the first that is free.
func (c *Config) servable(ctx context.Context, s *site) (mine []int) {
	all := c.endpoints()
	zero := c.NodeRank != nil && *c.NodeRank == 0
	switch {
	case len(all) == 1 && c.Conf.Host != nil:
		zero = *c.Conf.Host
		fallthrough
	case len(c.Endpoints) == 0: // --master-addr is of --node-rank 0
		if zero {
			mine = []int{0}
		}
		return mine
	case c.loopback() && c.NodeRank != nil:
		if *c.NodeRank < len(all) {
			mine = []int{*c.NodeRank}
		}
		return mine
	}
	for i, e := range all {
		if host, _, err := net.SplitHostPort(e); err == nil && s.own(ctx, host) {
			mine = append(mine, i)
		}
	}
	return mine
}

// address returns the address at which other hosts reach this one.
func (c *Config) address(served string) (string, error) {
	if c.LocalAddr != "" {
		return c.LocalAddr, nil
	}
	if served != "" && len(c.endpoints()) == 1 {
		return served, nil
	}
	var err error
	for _, e := range c.endpoints() {
		var a string
		if a, err = netif.Towards(e); err == nil && a != served {
			return a, nil
		}
	}
	if served != "" {
		return served, nil
	}
	return "", err
}

// loopback reports whether all endpoints are loopback addresses.
func (c *Config) loopback() bool {
	return !slices.ContainsFunc(c.endpoints(), func(e string) bool {
		host, _, _ := net.SplitHostPort(e)
		return !rendezvous.IsLoopback(host)
	})
}

// secret returns the job's secret. It is nil if Insecure allows that.
func (c *Config) secret() ([]byte, error) {
	switch {
	case c.Secret != nil:
		return c.Secret, nil
	case c.loopback():
		return rendezvous.UserSecret()
	case c.Insecure:
		return nil, nil
	}
	return nil, fault.Try(fmt.Errorf("a job on several hosts needs a secret, or anyone who reaches %s could join it", strings.Join(c.endpoints(), ", ")),
		"(umask 077; openssl rand -hex 32 > job.secret), copy that file to every host, and --secret-file job.secret on each; or --insecure on a network that no stranger reaches")
}
