package tcp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// handshakeTime limits unauthenticated connections.
const handshakeTime = 5 * time.Second

// hello says what a connection is for. It is authenticated.
type hello struct {
	from, to, size uint32
	group          uint32 // id of the group, or control
	conn           uint32
	key            uint64 // hash of the group's name and ranks
}

const (
	control    = ^uint32(0)
	helloBytes = 28
	nonceBytes = 32
)

func (h hello) encode() []byte {
	var b []byte
	for _, v := range []uint32{h.from, h.to, h.size, h.group, h.conn} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return binary.LittleEndian.AppendUint64(b, h.key)
}

func decodeHello(b []byte) (hello, error) {
	if len(b) != helloBytes {
		return hello{}, errors.New("malformed hello")
	}
	le := binary.LittleEndian
	h := hello{le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint32(b[16:]), le.Uint64(b[20:])}
	if h.from >= h.size || h.to >= h.size || h.from <= h.to || h.conn > 1 {
		return hello{}, fmt.Errorf("invalid hello from rank %d to rank %d of %d, connection %d", h.from, h.to, h.size, h.conn)
	}
	return h, nil
}

func jobKey(secret []byte, job string) []byte {
	m := hmac.New(sha256.New, secret)
	io.WriteString(m, "trireme collective/tcp 1 "+job)
	return m.Sum(nil)
}

// proof returns the HMAC that proves knowledge of the key, for one side of one connection.
func proof(key []byte, side string, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, key)
	io.WriteString(m, side)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

var errSecret = errors.New("the peer has another job secret")

// dialHandshake authenticates a dialed connection. It sends a nonce; reads the peer's nonce and proof;
// sends its proof and hello; reads the peer's acceptance.
func dialHandshake(c net.Conn, key []byte, h hello, until time.Time) error {
	if err := c.SetDeadline(until); err != nil {
		return err
	}
	var mine [nonceBytes]byte
	rand.Read(mine[:])
	if _, err := c.Write(mine[:]); err != nil {
		return err
	}
	var in [nonceBytes + sha256.Size]byte
	if _, err := io.ReadFull(c, in[:]); err != nil {
		return err
	}
	theirs := in[:nonceBytes]
	if !hmac.Equal(in[nonceBytes:], proof(key, "accept", mine[:], theirs)) {
		return errSecret
	}
	msg := h.encode()
	if _, err := c.Write(append(proof(key, "dial", mine[:], theirs, msg), msg...)); err != nil {
		return err
	}
	var welcome [sha256.Size]byte
	if _, err := io.ReadFull(c, welcome[:]); err != nil {
		return fmt.Errorf("the peer refused the connection: %w", err)
	}
	if !hmac.Equal(welcome[:], proof(key, "welcome", mine[:], theirs, msg)) {
		return errSecret
	}
	return c.SetDeadline(time.Time{})
}

// acceptHandshake is the accepting side of dialHandshake. It calls check after the dialer is authenticated.
func acceptHandshake(c net.Conn, key []byte, check func(hello) error) (hello, error) {
	if err := c.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return hello{}, err
	}
	var theirs, mine [nonceBytes]byte
	if _, err := io.ReadFull(c, theirs[:]); err != nil {
		return hello{}, err
	}
	rand.Read(mine[:])
	if _, err := c.Write(append(mine[:], proof(key, "accept", theirs[:], mine[:])...)); err != nil {
		return hello{}, err
	}
	var in [sha256.Size + helloBytes]byte
	if _, err := io.ReadFull(c, in[:]); err != nil {
		return hello{}, err
	}
	msg := in[sha256.Size:]
	if !hmac.Equal(in[:sha256.Size], proof(key, "dial", theirs[:], mine[:], msg)) {
		return hello{}, errSecret
	}
	h, err := decodeHello(msg)
	if err != nil {
		return hello{}, err
	}
	if err := check(h); err != nil {
		return h, err
	}
	if _, err := c.Write(proof(key, "welcome", theirs[:], mine[:], msg)); err != nil {
		return h, err
	}
	return h, c.SetDeadline(time.Time{})
}
