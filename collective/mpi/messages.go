package mpi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"trireme/collective"
	"trireme/internal/mpi"
)

// messages is a group. A message is a message of MPI: a header, the label and the body.
type messages struct {
	t       *transport
	id      int
	ranks   []int
	key     uint32 // of name and ranks
	reached atomic.Uint64
	in      [][streams]inbound // by group rank
	out     [][streams]outbound
}

var _ collective.Messages = (*messages)(nil)

const (
	stripes    = 1
	streams    = 3 * stripes
	headBytes  = 12 // lengths of label and body, key of the group
	maxMessage = mpi.MaxBuffer
	window     = 4 // sends in progress per stream
)

// outbound has the sends in progress, the oldest first.
type outbound struct{ sends []*mpi.Request }

// inbound has the receive in progress, if a Read has given it up or drain has posted it.
type inbound struct {
	r   *mpi.Request
	buf *mpi.Buffer
}

func (m *messages) Stripes() int { return stripes }

func (m *messages) tag(stream int) int { return 1 + streams*m.id + stream }

// Write returns when MPI has taken the message, before it is sent.
func (m *messages) Write(to, stream int, label, b []byte) error {
	s, rank := &m.out[to][stream], m.ranks[to]
	s.trim()
	if len(s.sends) == window {
		if err := m.wait(s.sends[0], rank); err != nil {
			return err
		}
	}
	if f := m.t.failure.Get(); f != nil {
		return f
	}
	n := headBytes + len(label) + len(b)
	if n > maxMessage {
		return fmt.Errorf("collective/mpi: a message of %d bytes, the limit is %d", n, maxMessage)
	}
	buf := mpi.NewBuffer(n)
	binary.LittleEndian.PutUint32(buf.B, uint32(len(label)))
	binary.LittleEndian.PutUint32(buf.B[4:], uint32(len(b)))
	binary.LittleEndian.PutUint32(buf.B[8:], m.key)
	copy(buf.B[headBytes+copy(buf.B[headBytes:], label):], b)
	s.sends = append(s.sends, m.t.comm.Send(buf, rank, m.tag(stream)))
	return nil
}

// trim forgets sends that are done.
func (s *outbound) trim() {
	for len(s.sends) > 0 && isDone(s.sends[0]) {
		s.sends = s.sends[1:]
	}
}

func (m *messages) Read(from, stream int, label, b []byte) (int, error) {
	s, rank := &m.in[from][stream], m.ranks[from]
	if f := m.t.failure.Get(); f != nil {
		return 0, f
	}
	m.post(s, rank, stream, headBytes+len(label)+len(b))
	if err := m.wait(s.r, rank); err != nil {
		return 0, err
	}
	defer s.free()
	body, err := m.open(s.buf.B, label)
	if err != nil || len(body) > len(b) {
		return 0, errors.Join(err, errMessage)
	}
	return copy(b, body), nil
}

var errMessage = errors.New("a message of another operation or group")

// open returns the body of a message, which must have the label.
func (m *messages) open(message, label []byte) ([]byte, error) {
	labelSize, size := uint64(binary.LittleEndian.Uint32(message)), uint64(binary.LittleEndian.Uint32(message[4:]))
	rest := message[headBytes:]
	if labelSize != uint64(len(label)) || size > uint64(len(rest)-len(label)) ||
		binary.LittleEndian.Uint32(message[8:]) != m.key || !bytes.Equal(rest[:len(label)], label) {
		return nil, errMessage
	}
	return rest[len(label):][:size], nil
}

// post starts to receive a message of up to n bytes.
func (m *messages) post(s *inbound, rank, stream, n int) {
	s.buf = mpi.NewBuffer(n)
	s.r = m.t.comm.Recv(s.buf, rank, m.tag(stream), false)
}

// free forgets a receive that is done. MPI may still use the buffer of one that failed.
func (s *inbound) free() {
	if s.r.Err() == nil {
		s.buf.Free()
	}
	*s = inbound{}
}

func isDone(r *mpi.Request) bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

// closedWait is the time for which a message may be later than its sender's msgBye: MPI orders messages
// of one tag only.
const closedWait = 100 * time.Millisecond

// wait waits for a request with a rank.
func (m *messages) wait(r *mpi.Request, rank int) error {
	if isDone(r) {
		return r.Err()
	}
	timer := time.NewTimer(m.t.timeout)
	defer timer.Stop()
	select {
	case <-r.Done():
		return r.Err()
	case <-m.t.failure.Done():
		return m.t.failure.Get()
	case <-timer.C:
		return os.ErrDeadlineExceeded
	case <-m.t.peers[rank].closed:
	}
	timer.Reset(closedWait)
	select {
	case <-r.Done():
		return r.Err()
	case <-timer.C:
		return io.EOF
	}
}

func (m *messages) Reached(seq uint64) { m.reached.Store(seq + 1) }

func (m *messages) Joined(rank int, seq uint64) bool {
	return m.ranks[rank] == m.t.p.Rank || m.t.ask(m.ranks[rank], m.id, seq)
}

// drain receives and discards what has arrived, and reports whether sends are in progress.
func (m *messages) drain() (sending bool) {
	for i, rank := range m.ranks {
		if rank == m.t.p.Rank {
			continue
		}
		for stream := range streams {
			in, out := &m.in[i][stream], &m.out[i][stream]
			if in.r != nil && isDone(in.r) {
				in.free()
			}
			if in.r == nil {
				m.post(in, rank, stream, maxMessage)
			}
			out.trim()
			sending = sending || len(out.sends) > 0
		}
	}
	return sending
}

// free cancels receives and frees their buffers.
func (m *messages) free() {
	for i := range m.in {
		for stream := range streams {
			if s := &m.in[i][stream]; s.r != nil {
				m.t.p.Cancel(s.r)
				s.free()
			}
		}
	}
}
