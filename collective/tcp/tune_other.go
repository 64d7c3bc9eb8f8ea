//go:build !linux

package tcp

import "net"

// tune does nothing.
func tune(c *net.TCPConn) {}
