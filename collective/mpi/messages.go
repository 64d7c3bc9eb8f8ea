package mpi

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"time"

	"trireme/collective"
	"trireme/internal/mpi"
)

// messages is a group. Each connection is a stream of segments, which are MPI messages: a header and up to
// segmentBytes.
type messages struct {
	t     *transport
	ranks []int
	key   uint32 // of name and ranks
	tag   int
	in    [][2]inbound // by group rank and connection
	out   [][2]outbound
}

var _ collective.Messages = (*messages)(nil)

const (
	segmentHeader = 8 // length, key of the group
	segmentBytes  = 256 << 10
	window        = 4 // segments in progress per stream
)

// outbound has the sends in progress, the oldest first.
type outbound struct{ sends []*mpi.Request }

// inbound has the receives in progress, in the order of their messages, and the rest of the last segment.
type inbound struct {
	posted []posted
	buf    *mpi.Buffer // of rest
	rest   []byte
}

type posted struct {
	r   *mpi.Request
	buf *mpi.Buffer
}

// Write returns when MPI has taken the last segments, before they are sent.
func (m *messages) Write(to, conn int, b []byte) error {
	s, rank := &m.out[to][conn], m.ranks[to]
	for len(b) > 0 {
		for len(s.sends) > 0 && isDone(s.sends[0]) {
			s.sends = s.sends[1:]
		}
		if len(s.sends) == window {
			if err := m.wait(s.sends[0], rank); err != nil {
				return err
			}
		}
		if f := m.t.failure.Get(); f != nil {
			return f
		}
		n := min(len(b), segmentBytes)
		buf := mpi.NewBuffer(segmentHeader + n)
		binary.LittleEndian.PutUint32(buf.B, uint32(n))
		binary.LittleEndian.PutUint32(buf.B[4:], m.key)
		copy(buf.B[segmentHeader:], b)
		s.sends = append(s.sends, m.t.comm.Send(buf, rank, m.tag+conn))
		b = b[n:]
	}
	return nil
}

var errSegment = errors.New("a message of another group or version")

// Read posts receives for the fewest segments that b can have, so that none is left over.
func (m *messages) Read(from, conn int, b []byte) error {
	s, rank := &m.in[from][conn], m.ranks[from]
	for {
		n := copy(b, s.rest)
		b, s.rest = b[n:], s.rest[n:]
		if len(s.rest) == 0 && s.buf != nil {
			s.buf.Free()
			s.buf = nil
		}
		if len(b) == 0 {
			return nil
		}
		for len(s.posted) < min(window, (len(b)+segmentBytes-1)/segmentBytes) {
			m.post(s, rank, conn)
		}
		first := s.posted[0]
		if err := m.wait(first.r, rank); err != nil {
			return err
		}
		s.posted = s.posted[1:]
		s.buf = first.buf
		size := binary.LittleEndian.Uint32(s.buf.B)
		if size == 0 || size > segmentBytes || binary.LittleEndian.Uint32(s.buf.B[4:]) != m.key {
			return errSegment
		}
		s.rest = s.buf.B[segmentHeader:][:size]
	}
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

// Arrived also counts receives that are done.
func (m *messages) Arrived(from, conn int) bool {
	s := &m.in[from][conn]
	if len(s.rest) > 0 {
		return true
	}
	if len(s.posted) > 0 {
		return isDone(s.posted[0].r)
	}
	return m.t.comm.Arrived(m.ranks[from], m.tag+conn)
}

// drain receives and discards what has arrived, and reports whether sends are in progress.
func (m *messages) drain() (sending bool) {
	for i, rank := range m.ranks {
		if rank == m.t.p.Rank {
			continue
		}
		for c := range 2 {
			in, out := &m.in[i][c], &m.out[i][c]
			for len(in.posted) > 0 && isDone(in.posted[0].r) && in.posted[0].r.Err() == nil {
				in.posted[0].buf.Free()
				in.posted = in.posted[1:]
			}
			if len(in.posted) == 0 {
				m.post(in, rank, c)
			}
			for len(out.sends) > 0 && isDone(out.sends[0]) {
				out.sends = out.sends[1:]
			}
			sending = sending || len(out.sends) > 0
		}
	}
	return sending
}

func (m *messages) post(s *inbound, rank, conn int) {
	buf := mpi.NewBuffer(segmentHeader + segmentBytes)
	s.posted = append(s.posted, posted{m.t.comm.Recv(buf, rank, m.tag+conn, false), buf})
}

// free cancels receives and frees their buffers. MPI may still use that of a failed request.
func (m *messages) free() {
	for i := range m.ranks {
		for c := range 2 {
			s := &m.in[i][c]
			for _, p := range s.posted {
				if m.t.p.Cancel(p.r); p.r.Err() == nil {
					p.buf.Free()
				}
			}
			if s.buf != nil {
				s.buf.Free()
			}
			*s = inbound{}
		}
	}
}
