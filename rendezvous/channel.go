package rendezvous

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"trireme/internal/secureconn"
)

// handshakeTime limits the exchange of processes after the handshake.
const handshakeTime = 5 * time.Second

// hello names the rank that connects and its world size: u32 each.
type hello struct{ rank, world int }

func (h hello) encode() []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(h.rank)), uint32(h.world))
}

func decodeHello(b []byte) (hello, error) {
	if len(b) != 8 {
		return hello{}, fmt.Errorf("rendezvous: invalid hello of %d bytes", len(b))
	}
	return hello{int(binary.BigEndian.Uint32(b)), int(binary.BigEndian.Uint32(b[4:]))}, nil
}

// channel carries messages on an authenticated connection, each with a u32 length before it. The first message
// of each side is its process. One goroutine may send and one receive.
type channel struct {
	net.Conn
	peer process
}

// newChannel exchanges processes, for up to handshakeTime.
func newChannel(c net.Conn, me process) (*channel, error) {
	ch := &channel{Conn: c}
	if err := c.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return nil, err
	}
	if err := ch.send(me.encode()); err != nil {
		return nil, err
	}
	b, err := ch.receive()
	if err != nil {
		return nil, err
	}
	if ch.peer, err = decodeProcess(b); err != nil {
		return nil, err
	}
	return ch, c.SetDeadline(time.Time{})
}

func (c *channel) watch(p *watchdog) { c.Conn = watchedConn{c.Conn, p} }

// maxMessage limits a message: a key and a value (message.go).
const maxMessage = maxValue + 4096

func (c *channel) send(payload []byte) error {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(payload)), uint32(len(payload)))
	_, err := c.Write(append(b, payload...))
	return err
}

func (c *channel) receive() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxMessage {
		return nil, fmt.Errorf("rendezvous: invalid message of %d bytes", size)
	}
	b := make([]byte, size)
	_, err := io.ReadFull(c.Conn, b)
	return b, err
}

// mode is the protection of the store's connections. They carry little, so loopback is no exception.
func (e Env) mode() secureconn.Mode {
	if e.Insecure && !e.OneMachine() {
		return secureconn.Plain
	}
	return secureconn.Encrypt
}
