// Package tcp connects ranks through TCP, on one host or several. Open makes a
// collective.World of it: every pair of ranks has one connection for control (failures,
// the end, what a rank is doing) and, in each group, one for the group's operations and one
// for Send and Recv, so that no group waits behind another.
//
// Both ends of a connection prove that they know the job's secret before anything else is
// read (HMAC-SHA256 over both sides' nonces, at most 256 bytes and 5 seconds); what follows
// is neither encrypted nor authenticated, so the network must be trusted not to alter it.
// The default interface is loopback.
//
// A rank whose process ends is noticed when the system closes its connections; one whose
// host is cut off, after five seconds without an answer; one that is stopped, by the
// time-out, in which no byte moves.
package tcp
