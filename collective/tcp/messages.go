package tcp

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"trireme/collective"
	"trireme/internal/secureconn"
)

// messages is a group's connections. Those to and from a rank are opened when they are first used.
type messages struct {
	t       *transport
	id      uint32
	key     uint64
	ranks   []int // in the world
	reached atomic.Uint64

	mu      sync.Mutex
	out, in map[stream]*secureconn.Conn
}

// stream is a stream to or from a group rank.
type stream struct{ rank, number int }

var _ collective.Messages = (*messages)(nil)

func newMessages(t *transport, id uint32, key uint64, ranks []int) *messages {
	return &messages{t: t, id: id, key: key, ranks: ranks, out: map[stream]*secureconn.Conn{}, in: map[stream]*secureconn.Conn{}}
}

func (m *messages) Stripes() int { return m.t.connections }

func (m *messages) Write(to, number int, label, b []byte) error {
	c, err := m.conn(m.out, to, number, m.dial)
	if err != nil {
		return err
	}
	if err := c.SetWriteDeadline(time.Now().Add(m.t.timeout)); err != nil {
		return err
	}
	if f := m.t.failure.Get(); f != nil { // a failing world sets deadlines in the past, which must stay
		return f
	}
	return c.WriteFrame(label, b)
}

func (m *messages) Read(from, number int, label, b []byte) (int, error) {
	c, err := m.conn(m.in, from, number, m.take)
	if err != nil {
		return 0, err
	}
	if err := c.SetReadDeadline(time.Now().Add(m.t.timeout)); err != nil {
		return 0, err
	}
	if f := m.t.failure.Get(); f != nil {
		return 0, f
	}
	return c.ReadFrame(label, b)
}

// conn returns the connection of a stream, and opens it if it is new.
func (m *messages) conn(open map[stream]*secureconn.Conn, rank, number int, connect func(ctx context.Context, rank, number int) (*secureconn.Conn, error)) (*secureconn.Conn, error) {
	s := stream{rank, number}
	m.mu.Lock()
	c := open[s]
	m.mu.Unlock()
	if c != nil {
		return c, nil
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), m.t.timeout, os.ErrDeadlineExceeded)
	defer cancel()
	go func() { // a failing world opens none
		select {
		case <-m.t.failure.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	c, err := connect(ctx, m.ranks[rank], number)
	if f := m.t.failure.Get(); err != nil && f != nil {
		return nil, f
	}
	if err != nil {
		return nil, err
	}
	if !m.t.add(c) {
		return nil, os.ErrClosed
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	open[s] = c
	return c, nil
}

func (m *messages) dial(ctx context.Context, rank, number int) (*secureconn.Conn, error) {
	return m.t.inbox.dial(ctx, m.t.addrs[rank].listen, hello{uint32(m.t.rank), uint32(rank), uint32(len(m.t.peers)), m.id, uint32(number), m.key})
}

func (m *messages) take(ctx context.Context, rank, number int) (*secureconn.Conn, error) {
	return m.t.inbox.take(ctx, connID{uint32(rank), m.id, uint32(number), m.key})
}

func (m *messages) Reached(seq uint64) { m.reached.Store(seq + 1) }

func (m *messages) Joined(rank int, seq uint64) bool {
	p := m.t.peers[m.ranks[rank]]
	return p == nil || p.ask(m.id, seq)
}
