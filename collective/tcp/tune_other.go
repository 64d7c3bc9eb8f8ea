//go:build !linux

package tcp

import "net"

// tune has nothing to do.
func tune(c *net.TCPConn) {}
