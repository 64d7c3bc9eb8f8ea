package netif

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"trireme/fault"
)

// Interface is a network interface of this host.
type Interface struct {
	Name      string         `json:"name"`
	Up        bool           `json:"up"`
	Loopback  bool           `json:"loopback"`
	MTU       int            `json:"mtu"` // bytes
	Addresses []netip.Prefix `json:"addresses"`
}

// List returns the interfaces of this host.
func List() ([]Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("reading the network interfaces: %w", err)
	}
	var out []Interface
	for _, i := range all {
		n := Interface{Name: i.Name, Up: i.Flags&net.FlagUp != 0, Loopback: i.Flags&net.FlagLoopback != 0, MTU: i.MTU, Addresses: []netip.Prefix{}}
		as, err := i.Addrs()
		if err != nil {
			continue // the interface has just been removed
		}
		for _, a := range as {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				n.Addresses = append(n.Addresses, p)
			}
		}
		out = append(out, n)
	}
	return out, nil
}

// Network returns the addresses at which other hosts may reach this one, IPv4 first. Those of bridges for
// containers and virtual machines count only if there are no others.
func Network(all []Interface) []netip.Addr {
	var own, bridges []netip.Addr
	for _, i := range all {
		for _, p := range i.Addresses {
			a := p.Addr().Unmap().WithZone("")
			switch {
			case !i.Up || i.Loopback || a.IsLoopback() || a.IsLinkLocalUnicast():
			case strings.HasPrefix(i.Name, "docker") || strings.HasPrefix(i.Name, "virbr") || strings.HasPrefix(i.Name, "br-"):
				bridges = append(bridges, a)
			default:
				own = append(own, a)
			}
		}
	}
	if len(own) == 0 {
		own = bridges
	}
	slices.SortStableFunc(own, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return own
}

// Towards returns the address of the interface that routes to a host and port. It sends nothing.
func Towards(hostPort string) (string, error) {
	conn, err := net.Dial("udp", hostPort)
	if err != nil {
		return "", fmt.Errorf("finding the interface that leads to %s: %w", hostPort, err)
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).IP.String(), nil
}

// Choice is an interface that the user named.
type Choice struct {
	From string // the key or variable
	Spec string // see Select
}

// LocalAddrVar is the variable with the address of --local_addr, which a launcher sets for its workers.
const LocalAddrVar = "TRIREME_LOCAL_ADDR"

// variables name an interface, for other programs too. The first one that is set counts.
var variables = [...]string{LocalAddrVar, "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"}

// Chosen returns the interface that the user named: by the key parallel.interface, whose value is key, or by
// a variable. lookup is os.LookupEnv. Without either the Spec is empty.
func Chosen(key string, lookup func(string) (string, bool)) Choice {
	if key != "" {
		return Choice{"parallel.interface", key}
	}
	for _, name := range variables {
		if v, ok := lookup(name); ok && strings.TrimSpace(v) != "" {
			return Choice{name, v}
		}
	}
	return Choice{}
}

// Address returns the address at which other hosts reach this one: that of the chosen interface, or of the
// one that routes to hostPort. If hostPort is on loopback, so is the address: all hosts are this machine.
func (c Choice) Address(hostPort string) (string, error) {
	routed, err := Towards(hostPort)
	if ip, bad := netip.ParseAddr(routed); c.Spec == "" || bad == nil && ip.IsLoopback() {
		return routed, err
	}
	all, err := List()
	if err != nil {
		return "", err
	}
	return c.selectFrom(all, hostPort)
}

func (c Choice) selectFrom(all []Interface, hostPort string) (string, error) {
	a, err := Select(all, c.Spec, hostPort)
	if err != nil {
		return "", fault.Try(fmt.Errorf("%s=%s %w", c.From, c.Spec, err), "one of them, or without %s: the interface that leads to the other hosts", c.From)
	}
	return a, nil
}

// Select returns the address of the interface that spec names: an address of this host, or names with
// commas between them as NCCL has them. A name is the start of an interface's name; "=eth0" is the full
// name, and "^docker,lo" names those to avoid. Among several, the address that routes to hostPort is
// preferred, then the family of its host, then the first.
func Select(all []Interface, spec, hostPort string) (string, error) {
	spec = strings.TrimSpace(spec)
	if ip, err := netip.ParseAddr(spec); err == nil {
		for _, i := range all {
			if slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return p.Addr().WithZone("") == ip.WithZone("") }) {
				return ip.String(), nil
			}
		}
		return "", fmt.Errorf("is no address of this host, which has %s", describe(all))
	}
	var found []netip.Addr
	for _, i := range all {
		if !i.Up || !matches(spec, i.Name) {
			continue
		}
		for _, p := range i.Addresses {
			if a := p.Addr(); !a.IsLinkLocalUnicast() {
				found = append(found, a)
			}
		}
	}
	if len(found) == 0 {
		return "", fmt.Errorf("names no interface of this host that is up and has an address; it has %s", describe(all))
	}
	if routed, err := Towards(hostPort); err == nil {
		if ip, err := netip.ParseAddr(routed); err == nil && slices.Contains(found, ip) {
			return routed, nil
		}
	}
	host, _, _ := net.SplitHostPort(hostPort)
	v6 := strings.Contains(host, ":")
	for _, a := range found {
		if a.Is6() == v6 {
			return a.String(), nil
		}
	}
	return found[0].String(), nil
}

// matches reports whether an interface's name is among those of spec.
func matches(spec, name string) bool {
	spec, avoid := strings.CutPrefix(spec, "^")
	spec, exact := strings.CutPrefix(spec, "=")
	for _, s := range strings.Split(spec, ",") {
		if s = strings.TrimSpace(s); s != "" && (s == name || !exact && strings.HasPrefix(name, s)) {
			return !avoid
		}
	}
	return avoid
}

// describe lists interfaces that are up: "eth0 (10.0.0.4), lo (127.0.0.1)".
func describe(all []Interface) string {
	var out []string
	for _, i := range all {
		if !i.Up || len(i.Addresses) == 0 {
			continue
		}
		var as []string
		for _, p := range i.Addresses {
			as = append(as, p.Addr().String())
		}
		out = append(out, fmt.Sprintf("%s (%s)", i.Name, strings.Join(as, ", ")))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}
