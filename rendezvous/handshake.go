package rendezvous

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
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

// The handshake. Messages have fixed sizes; the server sends first:
//
//	S: banner [8]  nonce [32]
//	C: nonce [32]  rank u32  world u32  HMAC(key, "client", both nonces, rank, world) [32]
//	S: HMAC(key, "server", both nonces, rank, world) [32]
//
// Each direction then has an AES-256-GCM key derived from key and both nonces. Its first frame is the
// sender's process; the client sends first.
const (
	banner        = "trireme2"
	nonceSize     = 32
	macSize       = sha256.Size
	handshakeTime = 5 * time.Second
)

// errNotPeer is the error of a peer that does not know the key or speaks another protocol.
var errNotPeer = errors.New("rendezvous: not a rank of this job")

type hello struct {
	rank, world int
	process     process // sent after the handshake
}

func mac(key []byte, side string, sn, cn []byte, h hello) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(side))
	m.Write(sn)
	m.Write(cn)
	m.Write(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(h.rank)), uint32(h.world)))
	return m.Sum(nil)
}

// acceptHandshake is the server's side. It takes up to handshakeTime.
func acceptHandshake(c net.Conn, key []byte, me process) (*channel, hello, error) {
	c.SetDeadline(time.Now().Add(handshakeTime))
	defer c.SetDeadline(time.Time{})
	sn := make([]byte, nonceSize)
	rand.Read(sn)
	if _, err := c.Write(append([]byte(banner), sn...)); err != nil {
		return nil, hello{}, err
	}
	b := make([]byte, nonceSize+8+macSize)
	if _, err := io.ReadFull(c, b); err != nil {
		return nil, hello{}, err
	}
	cn, rest := b[:nonceSize], b[nonceSize:]
	h := hello{rank: int(binary.BigEndian.Uint32(rest)), world: int(binary.BigEndian.Uint32(rest[4:]))}
	if !hmac.Equal(rest[8:], mac(key, "client", sn, cn, h)) {
		return nil, hello{}, errNotPeer
	}
	if _, err := c.Write(mac(key, "server", sn, cn, h)); err != nil {
		return nil, hello{}, err
	}
	ch, err := newChannel(c, key, sn, cn, "server", "client")
	if err == nil {
		err = ch.readProcess()
	}
	if err == nil {
		err = ch.send(me.encode())
	}
	return ch, h, err
}

// dialHandshake is the client's side. It sends nothing before it has read the banner.
func dialHandshake(c net.Conn, key []byte, h hello) (*channel, error) {
	c.SetDeadline(time.Now().Add(handshakeTime))
	defer c.SetDeadline(time.Time{})
	b := make([]byte, len(banner)+nonceSize)
	if _, err := io.ReadFull(c, b); err != nil {
		return nil, err
	}
	if string(b[:len(banner)]) != banner {
		return nil, errNotPeer
	}
	sn, cn := b[len(banner):], make([]byte, nonceSize)
	rand.Read(cn)
	out := append([]byte(nil), cn...)
	out = binary.BigEndian.AppendUint32(out, uint32(h.rank))
	out = binary.BigEndian.AppendUint32(out, uint32(h.world))
	if _, err := c.Write(append(out, mac(key, "client", sn, cn, h)...)); err != nil {
		return nil, err
	}
	got := make([]byte, macSize)
	if _, err := io.ReadFull(c, got); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotPeer, err)
	}
	if !hmac.Equal(got, mac(key, "server", sn, cn, h)) {
		return nil, errNotPeer
	}
	ch, err := newChannel(c, key, sn, cn, "client", "server")
	if err == nil {
		err = ch.send(h.process.encode())
	}
	if err == nil {
		err = ch.readProcess()
	}
	return ch, err
}

// channel is an encrypted connection. A frame is a u32 length and the AES-GCM of the payload. The nonce is
// the frame's number in its direction, so a replayed, dropped or reordered frame is an error. One goroutine
// may send and one receive.
type channel struct {
	net.Conn
	peer      process
	out, in   cipher.AEAD
	sent, got uint64
}

func newChannel(c net.Conn, key, sn, cn []byte, mine, theirs string) (*channel, error) {
	aead := func(side string) (cipher.AEAD, error) {
		k, err := hkdf.Key(sha256.New, key, append(append([]byte(nil), sn...), cn...), "frames from "+side, 32)
		if err != nil {
			return nil, err
		}
		b, err := aes.NewCipher(k)
		if err != nil {
			return nil, err
		}
		return cipher.NewGCM(b)
	}
	out, err := aead(mine)
	if err != nil {
		return nil, err
	}
	in, err := aead(theirs)
	return &channel{Conn: c, out: out, in: in}, err
}

func (c *channel) readProcess() error {
	size := uint32(processSize + c.in.Overhead())
	b, err := c.frame(size, size)
	if err != nil {
		return err
	}
	c.peer, err = decodeProcess(b)
	return err
}

func (c *channel) watch(p *watchdog) { c.Conn = watchedConn{c.Conn, p} }

// maxFrame limits a message: a key and a value (message.go).
const maxFrame = maxValue + 4096

func frameNonce(n uint64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 4, 12), n)
}

func (c *channel) send(payload []byte) error {
	size := len(payload) + c.out.Overhead()
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 4+size), uint32(size))
	b = c.out.Seal(b, frameNonce(c.sent), payload, nil)
	c.sent++
	_, err := c.Write(b)
	return err
}

func (c *channel) receive() ([]byte, error) { return c.frame(uint32(c.in.Overhead()), maxFrame) }

// frame reads a frame whose sealed size is between low and high.
func (c *channel) frame(low, high uint32) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < low || size > high {
		return nil, fmt.Errorf("rendezvous: invalid frame of %d bytes", size)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(c.Conn, b); err != nil {
		return nil, err
	}
	p, err := c.in.Open(b[:0], frameNonce(c.got), b, nil)
	if err != nil {
		return nil, errors.New("rendezvous: a frame failed authentication")
	}
	c.got++
	return p, nil
}
