package preflight

import (
	"encoding/binary"
	"sync"
	"time"

	"trireme/internal/secureconn"
)

// Frames of a probe begin with an operation.
const (
	opPing = 'p' // answered with the clock
	opData = 'd' // answered with the frame's length
	opMore = 'm' // not answered
)

// maxProbe is the limit of a probe's frame in bytes.
const maxProbe = 256 << 10

var ad = []byte("preflight") // associated data of each frame

// server answers the probes of other hosts.
type server struct {
	l   *secureconn.Listener
	now func() time.Time
	wg  sync.WaitGroup

	mu    sync.Mutex
	conns map[*secureconn.Conn]bool // nil after close
}

func serve(l *secureconn.Listener, now func() time.Time) *server {
	s := &server{l: l, now: now, conns: map[*secureconn.Conn]bool{}}
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if !s.add(c) {
				c.Close()
				return
			}
			s.wg.Go(func() { s.answer(c) })
		}
	})
	return s
}

func (s *server) add(c *secureconn.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		return false
	}
	s.conns[c] = true
	return true
}

// answer serves one connection until it fails or closes.
func (s *server) answer(c *secureconn.Conn) {
	defer c.Close()
	b := make([]byte, maxProbe)
	out := make([]byte, 8)
	for {
		n, err := c.ReadFrame(ad, b)
		if err != nil || n == 0 {
			return
		}
		switch b[0] {
		case opPing:
			binary.LittleEndian.PutUint64(out, uint64(s.now().UnixNano()))
		case opData:
			binary.LittleEndian.PutUint64(out, uint64(n))
		case opMore:
			continue
		default:
			return
		}
		if c.WriteFrame(ad, out) != nil {
			return
		}
	}
}

func (s *server) close() {
	_ = s.l.Close() // nothing is lost
	s.mu.Lock()
	for c := range s.conns {
		c.Close()
	}
	s.conns = nil
	s.mu.Unlock()
	s.wg.Wait()
}
