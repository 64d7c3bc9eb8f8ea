// Package natsstore is a launchers' store on NATS JetStream, whose servers run inside launchers: one in the
// launcher of the host that owns the endpoint, or three replicas. Two of three must run.
//
//	server, err := natsstore.Serve(ctx, cfg, 0, "10.0.0.1:29400") // on the host of endpoint 0
//	defer server.Close()
//	s, err := natsstore.Connect(ctx, cfg, server)                 // on each host; nil where no server runs
//	defer s.Close()
//
// # Connections
//
// A server listens at its endpoint with package secureconn, and NATS itself on no network address: clients
// enter by a pipe in the process. Routes between servers pass the same listener. For them each server has
// ports on 127.0.0.1, because NATS dials routes by address: its own, and one per peer, whose connections are
// forwarded to the peer's endpoint. Other users of the host reach them, so routes are also mutual TLS with a
// key derived from the job's, which comes before anything that NATS parses.
//
// # Entries
//
// A key is a subject of one stream in memory, and a change is a message with the expected sequence of the
// last one. A change has a random id, by which the stream recognizes one that is sent again after its answer
// was lost. A revision is a sequence number with the kind of the change in its lowest bits.
//
// # Leases
//
// The message of a leased key has its ttl. A renewal is the same message again. The reaper of each server
// deletes a key whose ttl passed since its last message, on condition that this still is the last: a server
// that is behind, or was stopped, deletes nothing that was renewed. NATS's own ttl of messages counts in
// seconds and is lost with an ordinary update.
//
// # Faults
//
// Any client may lose its connection: calls repeat until Config.Timeout, and watches continue where they were.
// When the leading server of three dies, NATS needs 4 to 9 seconds for another election. During this time no
// lease can be renewed, so with three servers a ttl needs to be ReplicatedTTL or more to survive it.
//
// Nothing is kept: a server that returns starts empty and copies from the others.
package natsstore
