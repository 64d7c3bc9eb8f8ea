package secureconn

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// flipping changes one byte of what it writes.
type flipping struct {
	net.Conn
	at, seen int
}

func (f *flipping) Write(b []byte) (int, error) {
	c := bytes.Clone(b)
	if i := f.at - f.seen; i >= 0 && i < len(c) {
		c[i] ^= 1 << (f.at % 8)
	}
	f.seen += len(c)
	return f.Conn.Write(c)
}

// exchange does a handshake and sends a frame in each direction, with a byte of one side changed. It returns
// what each side accepted, and the bytes that the changed side wrote.
func exchange(mode Mode, listener bool, at int) (question, answer string, bytes int) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	// A changed length waits for bytes that do not come.
	end := time.AfterFunc(100*time.Millisecond, func() { a.Close(); b.Close() })
	defer end.Stop()
	fa, fb := &flipping{Conn: a, at: -1}, &flipping{Conn: b, at: -1}
	changed := fb
	if listener {
		changed = fa
	}
	changed.at = at
	cfg := Config{Key: key, Mode: mode}
	buf := func() []byte { return make([]byte, 64) }
	var wg sync.WaitGroup
	wg.Go(func() {
		defer a.Close()
		c, err := accept(fa, &cfg, nil)
		if err != nil {
			return
		}
		in := buf()
		n, err := c.ReadFrame([]byte("question"), in)
		if err != nil {
			return
		}
		question = string(c.Hello()) + string(in[:n])
		c.WriteFrame([]byte("answer"), []byte("no"))
	})
	c, err := dial(fb, &cfg, []byte("rank 1 "), time.Now().Add(handshakeTime))
	if err == nil && c.WriteFrame([]byte("question"), []byte("ready?")) == nil {
		in := buf()
		if n, err := c.ReadFrame([]byte("answer"), in); err == nil {
			answer = string(in[:n])
		}
	}
	b.Close()
	wg.Wait()
	return question, answer, changed.seen
}

// Every changed byte of an exchange is noticed: each side has the true message or an error.
func TestEveryByteCounts(t *testing.T) {
	for _, mode := range []Mode{Encrypt, Sign} {
		for _, listener := range []bool{false, true} {
			q, a, n := exchange(mode, listener, -1)
			if q != "rank 1 ready?" || a != "no" {
				t.Fatalf("mode %v: %q %q", mode, q, a)
			}
			var wg sync.WaitGroup
			for at := range n {
				wg.Go(func() {
					q, a, _ := exchange(mode, listener, at)
					if q != "" && q != "rank 1 ready?" || a != "" || !listener && q != "" {
						t.Errorf("mode %v, listener %v, byte %d of %d: %q %q", mode, listener, at, n, q, a)
					}
				})
				if at%64 == 63 {
					wg.Wait()
				}
			}
			wg.Wait()
		}
	}
}

// taping keeps the frames that are written after the handshake, and sends none.
type taping struct {
	net.Conn
	on   bool
	sent []byte
}

func (p *taping) Write(b []byte) (int, error) {
	if !p.on {
		return p.Conn.Write(b)
	}
	p.sent = append(p.sent, b...)
	return len(b), nil
}

// tape opens a connection and returns it with its first n frames, which have not arrived.
func tape(t *testing.T, mode Mode, n int) (frames [][]byte, d, l *Conn) {
	p := &taping{}
	d, l = pair(t, mode, func(c net.Conn) net.Conn { p.Conn = c; return p })
	p.on = true
	for i := range n {
		if err := d.WriteFrame(nil, []byte(fmt.Sprint("frame ", i))); err != nil {
			t.Fatal(err)
		}
		frames = append(frames, p.sent)
		p.sent = nil
	}
	return frames, d, l
}

func ad(i int) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(i)) }

// Frames that are repeated, reordered, dropped, of another connection, or of the other direction are refused, also
// with the same associated data.
func TestFrameOrder(t *testing.T) {
	for _, mode := range []Mode{Encrypt, Sign} {
		other, _, _ := tape(t, mode, 4)
		for name, c := range map[string]struct {
			change func(f [][]byte) [][]byte
			good   int // frames that arrive
		}{
			"true":       {func(f [][]byte) [][]byte { return f }, 4},
			"repeated":   {func(f [][]byte) [][]byte { return slices.Concat(f[:2], f[1:]) }, 2},
			"reordered":  {func(f [][]byte) [][]byte { return [][]byte{f[0], f[2], f[1], f[3]} }, 1},
			"dropped":    {func(f [][]byte) [][]byte { return slices.Concat(f[:1], f[2:]) }, 1},
			"from first": {func(f [][]byte) [][]byte { return slices.Concat(f[:3], f) }, 3},
			"other":      {func(f [][]byte) [][]byte { return slices.Concat(f[:2], other[2:]) }, 2},
		} {
			frames, d, l := tape(t, mode, 4)
			raw := d.NetConn().(*taping).Conn
			for _, f := range c.change(frames) {
				raw.Write(f)
			}
			raw.Close()
			n, err := 0, error(nil)
			for ; err == nil; n++ {
				buf := make([]byte, 64)
				var size int
				if size, err = l.ReadFrame(nil, buf); err == nil && string(buf[:size]) != fmt.Sprint("frame ", n) {
					t.Errorf("mode %v, %s: frame %d is %q", mode, name, n, buf[:size])
				}
			}
			if n--; n != c.good || name != "true" && !errors.Is(err, ErrFrame) || name == "true" && err != io.EOF {
				t.Errorf("mode %v, %s: %d frames arrived, want %d: %v", mode, name, n, c.good, err)
			}
		}
		frames, d, _ := tape(t, mode, 1) // a frame sent back to its sender
		back := &Conn{raw: script{in: bytes.NewReader(frames[0])}, mode: mode}
		back.in.init(back.raw)
		back.in.aead = d.in.aead
		if _, err := back.ReadFrame(nil, make([]byte, 64)); !errors.Is(err, ErrFrame) {
			t.Errorf("mode %v: a reflected frame: %v", mode, err)
		}
	}
}

// A job goes on while strangers do everything at once to its listener.
func TestJobGoesOn(t *testing.T) {
	cfg := Config{Key: key}
	l, err := Listen(context.Background(), "127.0.0.1:0", cfg, func(hello []byte, _ net.Addr) error {
		if string(hello) != "rank 1" {
			t.Errorf("%q was admitted", hello)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	d, err := Dial(context.Background(), addr, cfg, []byte("rank 1"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	go discard(l)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for kind := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if kind == 0 {
					Dial(context.Background(), addr, Config{Key: bytes.Repeat([]byte{byte(i)}, 31), Mode: 0}, nil)
					Dial(context.Background(), addr, Config{Key: bytes.Repeat([]byte{byte(i) | 128}, 32)}, []byte("rank 2"))
					continue
				}
				c, err := net.Dial("tcp", addr)
				if err != nil {
					continue
				}
				if kind > 1 {
					c.Write(bytes.Repeat([]byte{byte(i)}, i%(2*requestBytes)))
				}
				reset(c)
			}
		})
	}
	buf := make([]byte, 1000)
	for i := range 2000 {
		if err := d.WriteFrame(ad(i), buf); err != nil {
			t.Fatal(err)
		}
		if _, err := in.ReadFrame(ad(i), buf); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 { // more ranks join
		c := works(t, l, "rank 1")
		c.Close()
	}
	close(stop)
	wg.Wait()
}
