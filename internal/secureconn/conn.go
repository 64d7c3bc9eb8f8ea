package secureconn

import (
	"net"
	"time"
)

// Conn is an authenticated connection. Read and Write carry a stream of bytes; ReadFrame and WriteFrame keep
// the borders of messages. One direction uses either of the two. It is safe for concurrent use.
type Conn struct {
	raw   net.Conn
	mode  Mode
	hello []byte
	out   writer
	in    reader
}

var _ net.Conn = (*Conn)(nil)

// Hello returns what the dialer sent in the handshake.
func (c *Conn) Hello() []byte { return c.hello }

// NetConn returns the connection below, to set options. Its bytes belong to Conn.
func (c *Conn) NetConn() net.Conn { return c.raw }

func (c *Conn) Close() error         { return c.raw.Close() }
func (c *Conn) LocalAddr() net.Addr  { return c.raw.LocalAddr() }
func (c *Conn) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }

// SetDeadline sets the deadlines of reads and writes. A read that timed out can be repeated with the same
// arguments. After a write that timed out every later write fails.
func (c *Conn) SetDeadline(t time.Time) error      { return c.raw.SetDeadline(t) }
func (c *Conn) SetReadDeadline(t time.Time) error  { return c.raw.SetReadDeadline(t) }
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.raw.SetWriteDeadline(t) }

// keepAlive detects an unreachable host within five seconds. The operating system of a stopped process still
// answers.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3}

func keepAlives(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(keepAlive) // else time-outs and heartbeats detect it
	}
}
