//go:build !linux

package tcp

import "net"

func tune(net.Conn) {}
