package secureconn

import (
	"bufio"
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

const (
	// MaxFrame is the limit of a frame's body, in bytes.
	MaxFrame = 256 << 10
	// streamFrame is the size of a full frame of Write. Read returns once per frame, which shows that the
	// peer lives on a slow network too.
	streamFrame = 64 << 10

	lengthBytes = 4
	tagBytes    = 16
	readAhead   = 4 << 10 // so that a small frame is one read
)

// ErrFrame is the error of a frame that fails authentication, or is not the one that the reader expects.
var ErrFrame = errors.New("secureconn: a frame was changed, replayed or reordered, or is not the expected one")

// streamAD is the associated data of the frames of Write.
var streamAD = []byte("stream")

// frames has buffers of a sealed frame, all of one size.
var frames = sync.Pool{New: func() any { return new([lengthBytes + MaxFrame + tagBytes]byte) }}

type buffer = *[lengthBytes + MaxFrame + tagBytes]byte

// counter makes the nonce of each frame.
type counter struct {
	n     uint64
	nonce [12]byte
}

func (c *counter) next() []byte {
	binary.LittleEndian.PutUint64(c.nonce[:], c.n)
	c.n++
	return c.nonce[:]
}

type writer struct {
	mu      sync.Mutex
	aead    cipher.AEAD // nil in mode Plain
	count   counter
	err     error  // of an earlier write
	head    []byte // length and tag
	scratch []byte
	parts   [2][]byte
	vector  net.Buffers
}

// WriteFrame sends body, up to MaxFrame bytes, as a frame. The reader must expect the same ad.
func (c *Conn) WriteFrame(ad, body []byte) error {
	w := &c.out
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && len(body) > MaxFrame {
		return fmt.Errorf("secureconn: a frame of %d bytes, the limit is %d", len(body), MaxFrame)
	}
	if w.err == nil {
		w.err = c.write(ad, body)
	}
	return w.err
}

func (c *Conn) write(ad, body []byte) error {
	w := &c.out
	if c.mode == Encrypt {
		b := frames.Get().(buffer)
		defer frames.Put(b)
		binary.LittleEndian.PutUint32(b[:], uint32(len(body)))
		_, err := c.raw.Write(w.aead.Seal(b[:lengthBytes], w.count.next(), body, ad))
		return err
	}
	w.head = binary.LittleEndian.AppendUint32(w.head[:0], uint32(len(body)))
	if c.mode == Sign {
		w.scratch = sign(w.scratch, w.aead, &w.count, ad, body)
		w.head = append(w.head, w.scratch[len(ad):]...)
	}
	w.parts = [2][]byte{w.head, body}
	w.vector = w.parts[:]
	_, err := w.vector.WriteTo(c.raw)
	w.parts = [2][]byte{}
	return err
}

// sign returns len(ad) bytes and the tag of ad and body. ad takes the plaintext's position in GCM, and body that
// of the associated data, so that the body is neither copied nor encrypted.
func sign(scratch []byte, a cipher.AEAD, n *counter, ad, body []byte) []byte {
	return a.Seal(scratch[:0], n.next(), ad, body)
}

// Write sends p as frames of the stream.
func (c *Conn) Write(p []byte) (int, error) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	n := 0
	for n < len(p) && c.out.err == nil {
		size := min(len(p)-n, streamFrame)
		if c.out.err = c.write(streamAD, p[n:][:size]); c.out.err == nil {
			n += size
		}
	}
	return n, c.out.err
}

type reader struct {
	mu      sync.Mutex
	r       *bufio.Reader
	aead    cipher.AEAD // nil in mode Plain
	count   counter
	err     error // of authentication: final
	started bool  // the frame's header was read
	size    int   // of the frame's body
	got     int   // bytes of the body, and in mode Encrypt of the tag, that were read
	tag     [tagBytes]byte
	scratch []byte
	sealed  buffer // the frame being read, in mode Encrypt
	hold    buffer // a frame of the stream, in parts returned by Read
	rest    []byte // of hold
}

func (r *reader) init(raw io.Reader) { r.r = bufio.NewReaderSize(raw, readAhead) }

// fail makes an error final.
func (r *reader) fail(err error) error {
	r.err = err
	return err
}

// start reads a frame's header, unless it was read.
func (r *reader) start(mode Mode) error {
	if r.err != nil || r.started {
		return r.err
	}
	n := lengthBytes
	if mode == Sign {
		n += tagBytes
	}
	h, err := r.r.Peek(n)
	if err != nil {
		if err == io.EOF && len(h) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	size := binary.LittleEndian.Uint32(h)
	if size > MaxFrame {
		return r.fail(ErrFrame)
	}
	copy(r.tag[:], h[lengthBytes:])
	_, _ = r.r.Discard(n) // buffered by Peek
	r.started, r.size, r.got = true, int(size), 0
	return nil
}

// fill reads the rest of a frame's bytes to b, which must be the same in a repeated call.
func (r *reader) fill(b []byte) error {
	n, err := io.ReadFull(r.r, b[r.got:])
	r.got += n
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// body reads and checks the frame that start began. b has its size.
func (r *reader) body(mode Mode, ad, b []byte) error {
	switch mode {
	case Encrypt:
		if r.sealed == nil {
			r.sealed = frames.Get().(buffer)
		}
		sealed := r.sealed[:r.size+tagBytes]
		if err := r.fill(sealed); err != nil {
			return err
		}
		_, err := r.aead.Open(b[:0], r.count.next(), sealed, ad)
		frames.Put(r.sealed)
		r.sealed = nil
		if err != nil {
			return r.fail(ErrFrame)
		}
	default:
		if err := r.fill(b); err != nil {
			return err
		}
		if mode == Plain {
			break
		}
		r.scratch = sign(r.scratch, r.aead, &r.count, ad, b)
		if subtle.ConstantTimeCompare(r.scratch[len(ad):], r.tag[:]) != 1 {
			clear(b)
			return r.fail(ErrFrame)
		}
	}
	r.started = false
	return nil
}

// ReadFrame reads a frame to buf and returns its length. The error is ErrFrame if the frame is longer than buf
// or was not sent with ad.
func (c *Conn) ReadFrame(ad, buf []byte) (int, error) {
	r := &c.in
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.start(c.mode); err != nil {
		return 0, err
	}
	if r.size > len(buf) {
		return 0, r.fail(ErrFrame)
	}
	if err := r.body(c.mode, ad, buf[:r.size]); err != nil {
		return 0, err
	}
	return r.size, nil
}

// Read reads from the stream of the peer's Write. It returns only bytes of authenticated frames.
func (c *Conn) Read(p []byte) (int, error) {
	r := &c.in
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.rest) == 0 && len(p) > 0 {
		if err := r.start(c.mode); err != nil {
			return 0, err
		}
		if r.hold == nil {
			r.hold = frames.Get().(buffer)
		}
		if err := r.body(c.mode, streamAD, r.hold[:r.size]); err != nil {
			return 0, err
		}
		r.rest = r.hold[:r.size]
	}
	n := copy(p, r.rest)
	if r.rest = r.rest[n:]; len(r.rest) == 0 && r.hold != nil {
		frames.Put(r.hold)
		r.hold = nil
	}
	return n, nil
}
