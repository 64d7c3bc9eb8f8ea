package tcp

import (
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"trireme/collective"
	"trireme/internal/secureconn"
)

type messages struct {
	t     *transport
	conns [][2]*secureconn.Conn // by group rank and connection
}

var _ collective.Messages = (*messages)(nil)

// blockBytes is the number of bytes moved under one deadline: the time-out limits time without progress.
const blockBytes = 1 << 20

func (p *messages) Write(to, conn int, b []byte) error {
	c := p.conns[to][conn]
	return p.each(b, c.SetWriteDeadline, func(b []byte) error { _, err := c.Write(b); return err })
}

func (p *messages) Read(from, conn int, b []byte) error {
	c := p.conns[from][conn]
	return p.each(b, c.SetReadDeadline, func(b []byte) error { _, err := io.ReadFull(c, b); return err })
}

// each moves b in blocks. It checks for a failure after setting a deadline, because a failing world sets
// deadlines in the past, which must stay.
func (p *messages) each(b []byte, deadline func(time.Time) error, move func([]byte) error) error {
	for len(b) > 0 {
		if err := deadline(time.Now().Add(p.t.timeout)); err != nil {
			return err
		}
		if f := p.t.failure.Get(); f != nil {
			return f
		}
		n := min(len(b), blockBytes)
		if err := move(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (p *messages) Arrived(from, conn int) bool {
	c := p.conns[from][conn]
	if c.Buffered() > 0 {
		return true
	}
	raw, err := c.NetConn().(*net.TCPConn).SyscallConn()
	if err != nil {
		return false
	}
	var n int
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, _ = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	})
	return err == nil && n > 0
}
