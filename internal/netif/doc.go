// Package netif selects the network interface that the ranks of a host use.
//
// A host with several interfaces has several addresses. By default ranks use the one that routes to the
// other hosts (Towards). A user names another by parallel.interface, or by the variables of NCCL and gloo
// that the same job has elsewhere (Chosen):
//
//	all, err := netif.List()
//	address, err := netif.Select(all, "eth0", "10.0.0.1:29500")
package netif
