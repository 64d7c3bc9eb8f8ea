// Package tcp connects ranks through TCP, on one host or several. Open returns a collective.World. Each
// pair of ranks has a control connection (failures, closing) and, in each group, one
// connection for the group's operations and one for Send and Recv, so groups do not block each other.
//
// Connections are those of package secureconn: both ends prove that they know the key of the job and attempt
// before anything else is read, and data is encrypted or signed, unless Config.Mode is Plain.
//
// A rank whose process ends is detected when the operating system closes its connections; an unreachable
// host by TCP keep-alive, within five seconds; a stopped process by the time-out without progress.
package tcp
