//go:build !linux

package tcp

import "net"

func tune(c *net.TCPConn) {}
