package tcp

import (
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"trireme/collective"
)

// messages is one rank's view of a group.
type messages struct {
	t     *transport
	lines [][2]*net.TCPConn // by rank of the group and line
}

var _ collective.Messages = (*messages)(nil)

// span is how much is moved under one deadline: the time-out is for no progress.
const span = 1 << 20

func (p *messages) Write(to, line int, b []byte) error {
	c := p.lines[to][line]
	return p.each(b, c.SetWriteDeadline, func(b []byte) error { _, err := c.Write(b); return err })
}

func (p *messages) Read(from, line int, b []byte) error {
	c := p.lines[from][line]
	return p.each(b, c.SetReadDeadline, func(b []byte) error { _, err := io.ReadFull(c, b); return err })
}

// each moves b in spans. A world that has failed has set deadlines in the past, which must
// not be undone: that is looked at after a deadline is set.
func (p *messages) each(b []byte, deadline func(time.Time) error, move func([]byte) error) error {
	for len(b) > 0 {
		if err := deadline(time.Now().Add(p.t.timeout)); err != nil {
			return err
		}
		if f := p.t.fault.Get(); f != nil {
			return f
		}
		n := min(len(b), span)
		if err := move(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (p *messages) Arrived(from, line int) bool {
	raw, err := p.lines[from][line].SyscallConn()
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
