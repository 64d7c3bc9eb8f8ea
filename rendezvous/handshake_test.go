package rendezvous

import (
	"bytes"
	"net"
	"strconv"
	"testing"
	"time"
)

type flipping struct {
	net.Conn
	at, seen int // the bit to flip, and the count of bits written
}

func (f *flipping) Write(p []byte) (int, error) {
	q := bytes.Clone(p)
	if i := f.at - f.seen; i >= 0 && i < 8*len(q) {
		q[i/8] ^= 1 << (i % 8)
	}
	f.seen += 8 * len(q)
	return f.Conn.Write(q)
}

// exchange does a handshake and sends a frame in each direction, with one bit flipped. It returns the received
// frames, nil for a side that fails.
func exchange(t *testing.T, server bool, bit int) (toServer, toClient []byte, bits int) {
	key := []byte("key")
	a, b := net.Pipe()
	fa, fb := &flipping{Conn: a, at: -1}, &flipping{Conn: b, at: -1}
	if server {
		fa.at = bit
	} else {
		fb.at = bit
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer a.Close()
		ch, _, err := acceptHandshake(fa, key, thisProcess())
		if err != nil {
			return
		}
		if toServer, err = ch.receive(); err != nil {
			return
		}
		ch.send([]byte("answer"))
	}()
	func() {
		defer b.Close()
		ch, err := dialHandshake(fb, key, hello{1, 2, thisProcess()})
		if err != nil {
			return
		}
		b.SetDeadline(time.Now().Add(50 * time.Millisecond)) // a larger length waits for more bytes
		if ch.send([]byte("question")) != nil {
			return
		}
		toClient, _ = ch.receive()
	}()
	<-done
	if server {
		return toServer, toClient, fa.seen
	}
	return toServer, toClient, fb.seen
}

// The receiver detects every flipped bit: it gets the sent frame or an error.
func TestEveryBitCounts(t *testing.T) {
	for _, server := range []bool{false, true} {
		q, a, bits := exchange(t, server, -1)
		if string(q) != "question" || string(a) != "answer" {
			t.Fatalf("%q %q", q, a)
		}
		for bit := 0; bit < bits; bit += 3 {
			q, a, _ := exchange(t, server, bit)
			if q != nil && string(q) != "question" || a != nil {
				t.Fatalf("server %v, bit %d: %q %q", server, bit, q, a)
			}
		}
	}
}

// A replayed frame is an error.
func TestReplay(t *testing.T) {
	a, b := net.Pipe()
	var tape bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		ch, _, err := acceptHandshake(a, nil, thisProcess())
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := ch.receive(); err != nil {
			t.Error(err)
		}
		if _, err := ch.receive(); err == nil {
			t.Error("a replayed frame was accepted")
		}
	}()
	ch, err := dialHandshake(b, nil, hello{1, 2, thisProcess()})
	if err != nil {
		t.Fatal(err)
	}
	ch.Conn = &taped{Conn: b, tape: &tape}
	if err := ch.send([]byte("once")); err != nil {
		t.Fatal(err)
	}
	b.Write(tape.Bytes())
	<-done
	a.Close()
	b.Close()
}

type taped struct {
	net.Conn
	tape *bytes.Buffer
}

func (t *taped) Write(p []byte) (int, error) {
	t.tape.Write(p)
	return t.Conn.Write(p)
}

func BenchmarkAllGather(b *testing.B) {
	for _, n := range []int{2, 8} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			stores := mustJoin(b, n)
			defer closeAll(stores)
			for b.Loop() {
				done := make(chan error, n)
				for _, s := range stores {
					go func() { done <- s.Barrier(b.Context(), "k") }()
				}
				for range n {
					if err := <-done; err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
