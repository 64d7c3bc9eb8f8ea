// Package tcp connects ranks through TCP, on one host or several. Open returns a collective.World. Each
// pair of ranks has a control connection (failures, closing) and, in each group, one
// connection for the group's operations and one for Send and Recv, so groups do not block each other.
//
// Both ends of a connection prove that they know the job's secret before anything else is read
// (HMAC-SHA256 over both nonces, up to 256 bytes and 5 seconds). Data is neither encrypted nor
// authenticated, so the network must be trusted. The default interface is loopback.
//
// A rank whose process ends is detected when the operating system closes its connections; an unreachable
// host by TCP keep-alive, within five seconds; a stopped process by the time-out without progress.
package tcp
