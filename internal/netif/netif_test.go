package netif

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

var host = []Interface{
	{Name: "lo", Up: true, Loopback: true, MTU: 65536, Addresses: prefixes("127.0.0.1/8", "::1/128")},
	{Name: "eth0", Up: true, MTU: 1500, Addresses: prefixes("10.0.0.4/24", "fe80::1/64")},
	{Name: "eth1", Up: true, MTU: 9000, Addresses: prefixes("10.1.0.4/24", "fd00::4/64")},
	{Name: "eth2", Addresses: prefixes("10.2.0.4/24")},
	{Name: "docker0", Up: true, MTU: 1500, Addresses: prefixes("172.17.0.1/16")},
}

func prefixes(all ...string) (out []netip.Prefix) {
	for _, s := range all {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func TestSelect(t *testing.T) {
	for _, c := range []struct{ spec, towards, want, err string }{
		{"eth1", "10.0.0.1:1", "10.1.0.4", ""},
		{"eth1", "[fd00::1]:1", "fd00::4", ""},
		{"eth", "10.9.9.9:1", "10.0.0.4", ""},
		{"eth1,eth0", "10.9.9.9:1", "10.0.0.4", ""}, // order of the host, as NCCL
		{"=eth1", "10.9.9.9:1", "10.1.0.4", ""},
		{"=eth", "10.9.9.9:1", "", "names no interface"},
		{"^docker,lo", "10.9.9.9:1", "10.0.0.4", ""},
		{"^=eth0,lo", "10.9.9.9:1", "10.1.0.4", ""},
		{"eth2", "10.9.9.9:1", "", "that is up and has an address; it has lo (127.0.0.1, ::1), eth0 (10.0.0.4"},
		{"10.1.0.4", "10.9.9.9:1", "10.1.0.4", ""},
		{"10.1.0.5", "10.9.9.9:1", "", "is no address of this host, which has lo"},
	} {
		got, err := Select(host, c.spec, c.towards)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s towards %s: %q, %v; want %q, %q", c.spec, c.towards, got, err, c.want, c.err)
		}
	}
}

func TestChosen(t *testing.T) {
	env := map[string]string{"GLOO_SOCKET_IFNAME": "eth1", "NCCL_SOCKET_IFNAME": " "}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	if c := Chosen("", lookup); c != (Choice{"GLOO_SOCKET_IFNAME", "eth1"}) {
		t.Errorf("%+v", c)
	}
	if c := Chosen("eth0", lookup); c != (Choice{"parallel.interface", "eth0"}) {
		t.Errorf("%+v", c)
	}
	_, err := Choice{"NCCL_SOCKET_IFNAME", "ib0"}.selectFrom(host, "10.0.0.1:1")
	want := "NCCL_SOCKET_IFNAME=ib0 names no interface of this host that is up and has an address; it has lo (127.0.0.1, ::1), eth0 (10.0.0.4, fe80::1), eth1 (10.1.0.4, fd00::4), docker0 (172.17.0.1). try: one of them, or without NCCL_SOCKET_IFNAME: the interface that leads to the other hosts"
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

// TestLoopback: the host's own interfaces are read, and the way to 127.0.0.1 is loopback.
func TestLoopback(t *testing.T) {
	all, err := List()
	if err != nil {
		t.Fatal(err)
	}
	a, err := Select(all, "127.0.0.1", "127.0.0.1:9")
	if err != nil || a != "127.0.0.1" {
		t.Errorf("%q, %v among %+v", a, err, all)
	}
	for _, c := range []Choice{{}, {"NCCL_SOCKET_IFNAME", "none"}} {
		if a, err := c.Address("127.0.0.1:9"); err != nil || a != "127.0.0.1" {
			t.Errorf("%+v: %q, %v", c, a, err)
		}
	}
}

func TestNetwork(t *testing.T) {
	if got := fmt.Sprint(Network(host)); got != "[10.0.0.4 10.1.0.4 fd00::4]" {
		t.Error(got)
	}
	if got := fmt.Sprint(Network([]Interface{host[0], host[4]})); got != "[172.17.0.1]" {
		t.Error("only a bridge: ", got)
	}
}
