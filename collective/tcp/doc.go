// Package tcp connects ranks through TCP, on one host or several. Open returns a collective.World.
//
// Each pair of ranks has a control connection for failures and closing. Data has connections of its own, one
// per direction, group and stream (collective.Messages). The sender dials them when it first uses a stream, so
// a rank has connections to the ranks that it exchanges data with, and groups do not block each other.
//
// Connections are package secureconn's: both ends know the job's secret, and messages are encrypted, or only
// authenticated, with their labels. In mode Plain the network must be trusted.
//
// With Config.Local the ranks of a host share memory, and data passes between hosts once.
//
// A rank whose process ends is detected when the operating system closes its connections; an unreachable
// host by TCP keep-alive, within five seconds; a stopped process by the time-out without progress.
package tcp
