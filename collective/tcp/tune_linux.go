package tcp

import (
	"net"

	"golang.org/x/sys/unix"
)

// tune selects the congestion control of a loopback connection: one that paces (bbr) would leave it idle.
// It ignores errors.
func tune(conn net.Conn) {
	c, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	if ok && a.IP.IsLoopback() {
		_ = raw.Control(func(fd uintptr) {
			for _, name := range []string{"reno", "cubic"} {
				if unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name) == nil {
					return
				}
			}
		})
	}
}
