// Package numa binds the worker processes of a machine to processors of its NUMA nodes. It does not start
// processes (launch).
//
// Read lists the nodes with a processor that this process may use, from Linux's sysfs. Bind gives each worker a
// share of them, as numactl -C and DeepSpeed's --bind_cores_to_rank do:
//
//	allowed, err := numa.Allowed()
//	nodes, err := numa.Read("/sys", allowed)
//	for local, b := range numa.Bind(nodes, 4) { ... b.CPUs ... }
//
// Processors alone are bound. Linux allocates a page on the node of the thread that first writes to it, so the memory
// of a worker whose threads stay on a node is there too, while the node has free memory. A policy for
// memory (set_mempolicy) would add an error when the node is full, and containers usually forbid it.
package numa
