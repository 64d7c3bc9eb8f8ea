// Package netns makes hosts for tests on one Linux machine: network namespaces with an address, a host
// name and an /etc/hosts, connected by a switch. Links can be cut, slowed and blocked. It needs root and
// the programs ip and tc (iproute2).
//
//	net := netns.New(t, 2) // skips the test where namespaces cannot be made
//	cmd := net.Hosts[0].Command(ctx, exe, "train", "--nnodes", "2", "--master_addr", net.Hosts[0].Addr)
//
// Namespaces have no connection to the machine's own network.
package netns
