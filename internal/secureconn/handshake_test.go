package secureconn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var key = bytes.Repeat([]byte{7}, 32)

var modes = []Mode{Encrypt, Sign, Plain}

// pair returns the two ends of a connection. wrap, if not nil, replaces the dialer's view of the network.
func pair(t testing.TB, mode Mode, wrap func(net.Conn) net.Conn) (dialer, listener *Conn) {
	t.Helper()
	cfg := Config{Key: key, Mode: mode}
	l, err := Listen(context.Background(), "127.0.0.1:0", cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if wrap != nil {
		raw = wrap(raw)
	}
	got := make(chan *Conn)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	dialer, err = dial(raw, &cfg, []byte("hello"), time.Now().Add(handshakeTime))
	if err != nil {
		t.Fatal(err)
	}
	listener = <-got
	t.Cleanup(func() { dialer.Close(); listener.Close() })
	return dialer, listener
}

func listen(t testing.TB, cfg Config, admit func([]byte, net.Addr) error) *Listener {
	t.Helper()
	l, err := Listen(context.Background(), "127.0.0.1:0", cfg, admit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go discard(l)
	return l
}

// discard accepts connections and closes them.
func discard(l *Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		c.Close()
	}
}

// works dials until the listener accepts, for up to five seconds.
func works(t testing.TB, l *Listener, hello string) *Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for {
		c, err := Dial(ctx, l.Addr().String(), l.cfg, []byte(hello))
		if err == nil {
			return c
		}
		if ctx.Err() != nil {
			t.Fatalf("a true peer is not accepted: %v", err)
		}
	}
}

func TestHello(t *testing.T) {
	for _, mode := range modes {
		if _, l := pair(t, mode, nil); string(l.Hello()) != "hello" {
			t.Errorf("mode %v: hello %q", mode, l.Hello())
		}
	}
}

func TestStrangers(t *testing.T) {
	cfg := Config{Key: key}
	l := listen(t, cfg, func([]byte, net.Addr) error { t.Error("a stranger reached admit"); return nil })
	addr := l.Addr().String()
	if _, err := Dial(context.Background(), addr, Config{Key: bytes.Repeat([]byte{8}, 32)}, nil); !errors.Is(err, ErrStranger) {
		t.Errorf("another key: %v", err)
	}
	for name, b := range map[string][]byte{
		"garbage":  bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 64),
		"zeros":    make([]byte, requestBytes),
		"oversize": make([]byte, 1<<20),
	} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(5 * time.Second))
		c.Write(b) // may fail: the listener resets
		if got, _ := io.ReadAll(c); len(got) > greetingBytes {
			t.Errorf("%s was answered with %d bytes", name, len(got))
		}
		c.Close()
	}
}

// The listener refuses a handshake that it has seen, to the last byte.
func TestReplayedHandshake(t *testing.T) {
	l := listen(t, Config{Key: key}, nil)
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	tape := &recording{Conn: raw}
	if _, err := dial(tape, &l.cfg, []byte("hello"), time.Now().Add(handshakeTime)); err != nil {
		t.Fatal(err)
	}
	raw.Close()
	again, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	again.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := again.Write(tape.sent.Bytes()); err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(again); len(got) > greetingBytes {
		t.Errorf("a replayed handshake was answered with %d bytes", len(got))
	}
	works(t, l, "").Close()
}

type recording struct {
	net.Conn
	sent bytes.Buffer
}

func (r *recording) Write(b []byte) (int, error) {
	r.sent.Write(b)
	return r.Conn.Write(b)
}

func TestRefused(t *testing.T) {
	l := listen(t, Config{Key: key}, func(hello []byte, from net.Addr) error {
		return errors.New("no room for " + string(hello) + strings.Repeat(".", 2*maxText))
	})
	_, err := Dial(context.Background(), l.Addr().String(), l.cfg, []byte("rank 3"))
	var r *Refused
	if !errors.As(err, &r) || !strings.HasPrefix(r.Text, "no room for rank 3.") {
		t.Errorf("refused: %v", err)
	}
	_, err = Dial(context.Background(), l.Addr().String(), Config{Key: key, Mode: Sign}, nil)
	if !errors.As(err, &r) || !strings.Contains(r.Text, "mode sign there and encrypt here") {
		t.Errorf("another mode: %v", err)
	}
}

func TestConfig(t *testing.T) {
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "[::ffff:0.0.0.0]:0"} {
		if l, err := Listen(context.Background(), addr, Config{Key: key}, nil); err == nil || !strings.Contains(err.Error(), "every interface") {
			l.Close()
			t.Errorf("listens on %s: %v", addr, err)
		}
	}
	for _, cfg := range []Config{{Key: key[1:]}, {Key: key, Mode: 3}} {
		if _, err := Listen(context.Background(), "127.0.0.1:0", cfg, nil); err == nil {
			t.Errorf("%+v is valid", cfg)
		}
	}
	if _, err := Dial(context.Background(), "127.0.0.1:1", Config{Key: key}, make([]byte, MaxHello+1)); err == nil {
		t.Error("a hello above the limit is valid")
	}
}

// Silent connections do not keep others out, however many.
func TestSilentFlood(t *testing.T) {
	l := listen(t, Config{Key: key}, nil)
	var mu sync.Mutex
	var cs []net.Conn
	defer func() {
		for _, c := range cs {
			c.Close()
		}
	}()
	for range 2 * maxPerSource {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		cs = append(cs, c)
		mu.Unlock()
	}
	works(t, l, "").Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending.conns) > maxPerSource {
		t.Errorf("%d pending connections of one address, the limit is %d", len(l.pending.conns), maxPerSource)
	}
}

type from struct {
	net.Conn
	addr   net.TCPAddr
	closed bool
}

func (f *from) RemoteAddr() net.Addr { return &f.addr }
func (f *from) Close() error         { f.closed = true; return nil }

// The addresses with the most connections lose the oldest one: a single connection of another address stays, and
// a new one of a new address enters.
func TestPendingIsFair(t *testing.T) {
	for name, c := range map[string]struct {
		sources, more int
		single        bool // another address has a connection before
		lost          int
	}{
		"three addresses": {3, 3 * maxPending, true, 3*maxPending - maxPending + 1},
		"one address":     {1, maxPerSource + 5, true, 5},
		"many addresses":  {1 << 20, maxPending + 40, false, 40},
	} {
		p := newPending()
		one := &from{addr: net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}}
		if c.single {
			p.add(one)
		}
		var all []*from
		for i := range c.more {
			n := i % c.sources
			f := &from{addr: net.TCPAddr{IP: net.IPv4(10, 1, byte(n>>8), byte(n))}}
			all = append(all, f)
			p.add(f)
		}
		lost := 0
		for i, f := range all {
			if f.closed {
				lost++
			}
			if f.closed != (i < c.lost) {
				t.Fatalf("%s: connection %d of %d: closed %v", name, i, len(all), f.closed)
			}
		}
		if one.closed || lost != c.lost {
			t.Errorf("%s: one closed: %v; %d lost, want %d", name, one.closed, lost, c.lost)
		}
		for _, f := range all {
			p.remove(f)
		}
		p.remove(one)
		if len(p.conns) != 0 || len(p.from) != 0 {
			t.Errorf("%s: %d pending, %d addresses left", name, len(p.conns), len(p.from))
		}
	}
}

// A silent peer is dropped after handshakeTime, at either side.
func TestSilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Key: key}
		for name, f := range map[string]func(net.Conn) error{
			"listener": func(c net.Conn) error { _, err := accept(c, &cfg, nil); return err },
			"dialer":   func(c net.Conn) error { _, err := dial(c, &cfg, nil, time.Now().Add(handshakeTime)); return err },
		} {
			a, b := net.Pipe()
			go io.Copy(io.Discard, b)
			began := time.Now()
			if err := f(a); err == nil || time.Since(began) != handshakeTime {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
			a.Close()
			b.Close()
		}
	})
}

type script struct {
	net.Conn
	in *bytes.Reader
}

func (s script) Read(b []byte) (int, error)  { return s.in.Read(b) }
func (s script) Write(b []byte) (int, error) { return len(b), nil }
func (s script) SetDeadline(time.Time) error { return nil }

func FuzzAccept(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, requestBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		cfg := Config{Key: key}
		_, err := accept(script{in: bytes.NewReader(b)}, &cfg, func([]byte) error { t.Error("admit was called"); return nil })
		if err == nil {
			t.Error("a stranger was accepted")
		}
	})
}

func FuzzDial(f *testing.F) {
	f.Add([]byte(magic))
	f.Add(append([]byte(magic), make([]byte, nonceBytes+verdictBytes)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		cfg := Config{Key: key}
		if _, err := dial(script{in: bytes.NewReader(b)}, &cfg, nil, time.Time{}); err == nil {
			t.Error("a stranger was believed")
		}
	})
}

func FuzzPadded(f *testing.F) {
	f.Add(appendPadded(nil, []byte("text"), 16))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 2 || len(b) > 1<<16 {
			return
		}
		got, err := padded(b)
		if err == nil && !bytes.HasPrefix(b[2:], got) {
			t.Errorf("%v gave %v", b, got)
		}
	})
}
