package secureconn

import (
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
	"strings"
	"time"

	"trireme/internal/gcm"
)

// MaxHello is the limit of a hello, in bytes.
const MaxHello = 256

const (
	magic         = "trireme3"
	nonceBytes    = 32
	macBytes      = sha256.Size
	maxText       = 512
	greetingBytes = len(magic) + nonceBytes
	requestBytes  = nonceBytes + 1 + 2 + MaxHello + macBytes
	verdictBytes  = 1 + 2 + maxText + macBytes

	handshakeTime = 5 * time.Second
)

const (
	welcome = 1 + iota
	refused
)

// proof returns the HMAC of one side over the handshake so far.
func proof(key []byte, side string, messages ...[]byte) []byte {
	m := hmac.New(sha256.New, key)
	io.WriteString(m, side)
	for _, b := range messages {
		m.Write(b)
	}
	return m.Sum(nil)
}

// appendPadded appends the length of b, and b padded with zeros to size bytes.
func appendPadded(to, b []byte, size int) []byte {
	to = binary.LittleEndian.AppendUint16(to, uint16(len(b)))
	return append(append(to, b...), make([]byte, size-len(b))...)
}

func padded(b []byte) ([]byte, error) {
	n := int(binary.LittleEndian.Uint16(b))
	if n > len(b)-2 {
		return nil, errors.New("secureconn: malformed handshake")
	}
	return b[2:][:n], nil
}

// accept is the listener's side. Up to the check of the request's HMAC it reads a fixed number of bytes and
// parses none. The error is *Refused if the peer is of this job.
func accept(c net.Conn, cfg *Config, admit func(hello []byte) error) (*Conn, error) {
	if err := c.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return nil, err
	}
	greeting := append(make([]byte, 0, greetingBytes), magic...)
	greeting = greeting[:greetingBytes]
	rand.Read(greeting[len(magic):])
	if _, err := c.Write(greeting); err != nil {
		return nil, err
	}
	request := make([]byte, requestBytes)
	if _, err := io.ReadFull(c, request); err != nil {
		return nil, err
	}
	signed := request[:requestBytes-macBytes]
	if !hmac.Equal(request[len(signed):], proof(cfg.Key, "dial", greeting, signed)) {
		return nil, ErrStranger
	}
	mode := Mode(signed[nonceBytes])
	hello, err := padded(signed[nonceBytes+1:])
	if err == nil && mode != cfg.Mode {
		err = fmt.Errorf("connections are in mode %v there and %v here", mode, cfg.Mode)
	}
	if err == nil && admit != nil {
		err = admit(hello)
	}
	status, text := byte(welcome), ""
	if err != nil {
		status, text = refused, err.Error()
		text = text[:min(len(text), maxText)]
	}
	verdict := appendPadded(append(make([]byte, 0, verdictBytes), status), []byte(text), maxText)
	if _, err := c.Write(append(verdict, proof(cfg.Key, "accept", greeting, request, verdict)...)); err != nil {
		return nil, err
	}
	if status == refused {
		return nil, &Refused{text}
	}
	return newConn(c, cfg, hello, greeting, request, "listener", "dialer")
}

// dial is the dialer's side. It sends nothing before it has read the greeting.
func dial(c net.Conn, cfg *Config, hello []byte, until time.Time) (*Conn, error) {
	if err := c.SetDeadline(until); err != nil {
		return nil, err
	}
	greeting := make([]byte, greetingBytes)
	if _, err := io.ReadFull(c, greeting); err != nil {
		return nil, err
	}
	if string(greeting[:len(magic)]) != magic {
		return nil, ErrStranger
	}
	request := make([]byte, nonceBytes, requestBytes)
	rand.Read(request)
	request = appendPadded(append(request, byte(cfg.Mode)), hello, MaxHello)
	request = append(request, proof(cfg.Key, "dial", greeting, request)...)
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	verdict := make([]byte, verdictBytes)
	if _, err := io.ReadFull(c, verdict); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	signed := verdict[:verdictBytes-macBytes]
	if !hmac.Equal(verdict[len(signed):], proof(cfg.Key, "accept", greeting, request, signed)) {
		return nil, ErrKey
	}
	if signed[0] != welcome {
		text, err := padded(signed[1:])
		if err != nil {
			return nil, err
		}
		return nil, &Refused{strings.ToValidUTF8(string(text), "")}
	}
	return newConn(c, cfg, hello, greeting, request, "dialer", "listener")
}

// newConn derives the keys of both directions and ends the handshake's deadline.
func newConn(raw net.Conn, cfg *Config, hello, greeting, request []byte, mine, theirs string) (*Conn, error) {
	c := &Conn{raw: raw, mode: cfg.Mode, hello: hello}
	c.in.init(raw)
	if cfg.Mode != Plain {
		salt := append(append([]byte(nil), greeting...), request...)
		var err error
		if c.out.aead, err = aead(cfg.Key, salt, mine); err != nil {
			return nil, err
		}
		if c.in.aead, err = aead(cfg.Key, salt, theirs); err != nil {
			return nil, err
		}
	}
	return c, raw.SetDeadline(time.Time{})
}

func aead(key, salt []byte, side string) (cipher.AEAD, error) {
	k, err := hkdf.Key(sha256.New, key, salt, "frames from "+side, 16)
	if err != nil {
		return nil, err
	}
	return gcm.New(k)
}
