package secureconn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

func TestFrames(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			d, l := pair(t, mode, nil)
			r := rand.New(rand.NewPCG(1, 2))
			sizes := []int{0, 1, 15, 16, 17, 4095, 4096, 4097, 65536, MaxFrame - 1, MaxFrame}
			var bodies [][]byte
			for _, n := range sizes {
				b := make([]byte, n)
				for i := range b {
					b[i] = byte(r.Uint32())
				}
				bodies = append(bodies, b)
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				for i, b := range bodies {
					if err := d.WriteFrame([]byte{byte(i)}, b); err != nil {
						t.Error(err)
					}
				}
			})
			buf := make([]byte, MaxFrame)
			for i, want := range bodies {
				n, err := l.ReadFrame([]byte{byte(i)}, buf)
				if err != nil || !bytes.Equal(buf[:n], want) {
					t.Fatalf("frame %d: %d bytes of %d, %v", i, n, len(want), err)
				}
			}
			wg.Wait()
			if err := d.WriteFrame(nil, make([]byte, MaxFrame+1)); err == nil {
				t.Error("a frame above the limit was sent")
			}
		})
	}
}

func TestStream(t *testing.T) {
	for _, mode := range modes {
		d, l := pair(t, mode, nil)
		want := bytes.Repeat([]byte("0123456789"), 100_000)
		var wg sync.WaitGroup
		wg.Go(func() {
			for b := want; len(b) > 0; {
				n := min(len(b), 1+len(b)/3)
				if _, err := d.Write(b[:n]); err != nil {
					t.Error(err)
				}
				b = b[n:]
			}
			d.Close()
		})
		got, err := io.ReadAll(l)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("mode %v: %d bytes of %d, %v", mode, len(got), len(want), err)
		}
		wg.Wait()
	}
}

// Frames with other associated data, above the reader's buffer, or of the stream are errors that stay.
func TestWrongFrame(t *testing.T) {
	for _, mode := range []Mode{Encrypt, Sign} {
		for name, read := range map[string]func(c *Conn) error{
			"associated data": func(c *Conn) error { _, err := c.ReadFrame([]byte("ae"), make([]byte, 9)); return err },
			"empty":           func(c *Conn) error { _, err := c.ReadFrame(nil, make([]byte, 9)); return err },
			"size":            func(c *Conn) error { _, err := c.ReadFrame([]byte("ad"), make([]byte, 3)); return err },
			"stream":          func(c *Conn) error { _, err := c.Read(make([]byte, 9)); return err },
		} {
			d, l := pair(t, mode, nil)
			for range 2 {
				if err := d.WriteFrame([]byte("ad"), []byte("body")); err != nil {
					t.Fatal(err)
				}
			}
			if err := read(l); !errors.Is(err, ErrFrame) {
				t.Errorf("mode %v, %s: %v", mode, name, err)
			}
			if _, err := l.ReadFrame([]byte("ad"), make([]byte, 9)); !errors.Is(err, ErrFrame) {
				t.Errorf("mode %v, %s: a later read gives %v", mode, name, err)
			}
		}
	}
}

// A read that times out anywhere in a frame continues where it stopped.
func TestReadTimeout(t *testing.T) {
	for _, mode := range modes {
		slow := &dripping{}
		d, l := pair(t, mode, func(c net.Conn) net.Conn { slow.Conn = c; return slow })
		slow.on = true
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := d.WriteFrame([]byte("ad"), bytes.Repeat([]byte("body"), 3)); err != nil {
				t.Error(err)
			}
			if _, err := d.Write([]byte("stream")); err != nil {
				t.Error(err)
			}
		})
		timeouts := 0
		retry := func(f func() error) {
			for {
				l.SetReadDeadline(time.Now().Add(time.Millisecond))
				err := f()
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				timeouts++
			}
		}
		buf := make([]byte, 12)
		retry(func() error { _, err := l.ReadFrame([]byte("ad"), buf); return err })
		if string(buf) != "bodybodybody" {
			t.Errorf("mode %v: %q", mode, buf)
		}
		n := 0
		retry(func() (err error) { n, err = l.Read(buf); return err })
		if string(buf[:n]) != "stream" || timeouts == 0 {
			t.Errorf("mode %v: %q after %d time-outs", mode, buf[:n], timeouts)
		}
		wg.Wait()
	}
}

// dripping writes a byte every two milliseconds.
type dripping struct {
	net.Conn
	on bool
}

func (d *dripping) Write(b []byte) (int, error) {
	if !d.on {
		return d.Conn.Write(b)
	}
	for i := range b {
		time.Sleep(2 * time.Millisecond)
		if _, err := d.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

func TestTruncated(t *testing.T) {
	for _, mode := range modes {
		cut := &cutting{left: 1 << 30}
		d, l := pair(t, mode, func(c net.Conn) net.Conn { cut.Conn = c; return cut })
		cut.left = 23
		d.WriteFrame(nil, make([]byte, 100))
		if _, err := l.ReadFrame(nil, make([]byte, 100)); err != io.ErrUnexpectedEOF {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
}

type cutting struct {
	net.Conn
	left int
}

func (c *cutting) Write(b []byte) (int, error) {
	n := min(len(b), c.left)
	c.Conn.Write(b[:n])
	if c.left -= n; c.left == 0 {
		c.Close()
	}
	return n, nil
}

func TestNoAllocations(t *testing.T) {
	for _, mode := range modes {
		d, l := pair(t, mode, nil)
		ad, body, buf := make([]byte, 48), make([]byte, 1000), make([]byte, 1000)
		n := testing.AllocsPerRun(200, func() {
			if err := d.WriteFrame(ad, body); err != nil {
				t.Fatal(err)
			}
			if _, err := l.ReadFrame(ad, buf); err != nil {
				t.Fatal(err)
			}
		})
		if n > 0 {
			t.Errorf("mode %v: %v allocations per frame", mode, n)
		}
	}
}

// FuzzFrames reads what a stranger put on an authenticated connection.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	f.Add(make([]byte, 40), uint8(1))
	f.Add([]byte{4, 0, 0, 0, 'b', 'o', 'd', 'y', 0xff, 0xff, 0xff, 0xff}, uint8(2))
	f.Fuzz(func(t *testing.T, b []byte, m uint8) {
		mode := modes[int(m)%3]
		for _, stream := range []bool{false, true} {
			c, err := newConn(script{in: bytes.NewReader(b)}, &Config{Key: key, Mode: mode}, nil, nil, nil, "dialer", "listener")
			if err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 64)
			for range 100 {
				n := 0
				if stream {
					n, err = c.Read(buf)
				} else {
					n, err = c.ReadFrame(nil, buf)
				}
				if err != nil {
					break
				}
				if mode != Plain || n > len(b) {
					t.Fatalf("mode %v: accepted %d bytes", mode, n)
				}
			}
		}
	})
}

func BenchmarkFrames(b *testing.B) {
	for _, mode := range modes {
		for _, size := range []int{64, 64 << 10, 256 << 10} {
			b.Run(fmt.Sprintf("%v/%d", mode, size), func(b *testing.B) {
				d, l := pair(b, mode, nil)
				ad, body, buf := make([]byte, 48), make([]byte, size), make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				done := make(chan error, 1)
				n := 0
				stop := make(chan struct{})
				go func() {
					for {
						select {
						case <-stop:
							done <- d.WriteFrame([]byte("end"), nil)
							return
						default:
						}
						if err := d.WriteFrame(ad, body); err != nil {
							done <- err
							return
						}
					}
				}()
				for b.Loop() {
					if _, err := l.ReadFrame(ad, buf); err != nil {
						b.Fatal(err)
					}
					n++
				}
				close(stop)
				go io.Copy(io.Discard, l.NetConn())
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			})
		}
	}
	b.Run("socket", func(b *testing.B) {
		d, l := pair(b, Plain, nil)
		body := make([]byte, 256<<10)
		b.SetBytes(int64(len(body)))
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				if _, err := d.NetConn().Write(body); err != nil {
					return
				}
			}
		}()
		buf := make([]byte, len(body))
		for b.Loop() {
			if _, err := io.ReadFull(l.NetConn(), buf); err != nil {
				b.Fatal(err)
			}
		}
		l.Close()
		<-done
	})
}
