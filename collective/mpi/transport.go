package mpi

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"trireme/collective"
	"trireme/internal/mpi"
	"trireme/tensor"
)

type transport struct {
	p       *mpi.Process
	comm    *mpi.Comm
	timeout time.Duration
	failure *collective.FailureOnce
	peers   []peer // by rank

	stop chan struct{}
	wg   sync.WaitGroup

	mu      sync.Mutex
	groups  map[int]*messages
	asked   uint32               // number of questions
	answers map[uint32]chan bool // by question
}

// peer is the state of another rank.
type peer struct {
	once   sync.Once
	closed chan struct{} // closed when it has closed its world
}

var _ collective.Transport = (*transport)(nil)

// Tags: controlTag for control messages, then the streams of each group.
const (
	controlTag = 0
	maxGroups  = 32767/streams - 1 // MPI ensures tags up to 32767
)

func newTransport(p *mpi.Process, c *mpi.Comm, cfg Config) *transport {
	t := &transport{p: p, comm: c, timeout: cfg.Timeout, failure: collective.NewFailureOnce(), peers: make([]peer, cfg.Size), stop: make(chan struct{}),
		groups: map[int]*messages{}, answers: map[uint32]chan bool{}}
	for r := range t.peers {
		t.peers[r].closed = make(chan struct{})
	}
	t.wg.Go(t.readControl)
	return t
}

func (t *transport) Arena() *tensor.Arena             { return nil }
func (t *transport) Failure() *collective.FailureOnce { return t.failure }
func (t *transport) Describe(rank int) string         { return fmt.Sprintf("rank %d", rank) }

func (t *transport) Closed(rank int) bool {
	select {
	case <-t.peers[rank].closed:
		return true
	default:
		return false
	}
}

// Join exchanges nothing: every message carries the group's key.
func (t *transport) Join(id int, name string, ranks []int, me int) (collective.Links, error) {
	if id >= maxGroups {
		return collective.Links{}, fmt.Errorf("collective/mpi: more than %d groups", maxGroups)
	}
	f := fnv.New32a()
	fmt.Fprint(f, name, ranks)
	m := &messages{t: t, id: id, ranks: ranks, key: f.Sum32(), in: make([][streams]inbound, len(ranks)), out: make([][streams]outbound, len(ranks))}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.groups[id] = m
	return collective.Links{Messages: m}, nil
}

// A control message is a kind, the sender's rank, the length of the content in two bytes, and the content.
const (
	msgFailure = 1 + iota // collective.Failure
	msgBye                // the sender has closed its world
	msgAsk                // whether the receiver has reached an operation: question, group, sequence number
	msgAnswer             // question, 1 or 0

	controlHeader = 7
	maxControl    = controlHeader + 2048
)

func encodeControl(to []byte, kind byte, rank int, b []byte) {
	to[0] = kind
	binary.LittleEndian.PutUint32(to[1:], uint32(rank))
	binary.LittleEndian.PutUint16(to[5:], uint16(len(b)))
	copy(to[controlHeader:], b)
}

func decodeControl(m []byte, size int) (kind byte, rank int, b []byte, ok bool) {
	kind, rank = m[0], int(binary.LittleEndian.Uint32(m[1:]))
	n := int(binary.LittleEndian.Uint16(m[5:]))
	if kind < msgFailure || kind > msgAnswer || rank >= size || n > len(m)-controlHeader {
		return 0, 0, nil, false
	}
	return kind, rank, m[controlHeader:][:n], true
}

func (t *transport) readControl() {
	for {
		buf := mpi.NewBuffer(maxControl)
		r := t.comm.Recv(buf, mpi.Any, controlTag, true)
		select {
		case <-r.Done():
		case <-t.stop:
			t.p.Cancel(r)
		}
		if r.Err() != nil { // MPI has failed, and may still use the buffer
			t.failure.Set(&collective.Failure{Kind: collective.ErrPeerLost, Rank: t.p.Rank, Text: "MPI failed: " + r.Err().Error()})
			return
		}
		select {
		case <-t.stop:
			buf.Free()
			return
		default:
		}
		if kind, rank, b, ok := decodeControl(buf.B, t.p.Size); ok {
			switch kind {
			case msgFailure:
				if f, err := collective.DecodeFailure(b); err == nil {
					t.failure.Set(f)
				}
			case msgBye:
				t.peers[rank].once.Do(func() { close(t.peers[rank].closed) })
			case msgAsk:
				t.answer(rank, b)
			case msgAnswer:
				t.answered(b)
			}
		}
		buf.Free()
	}
}

// controlWait limits the time for which a sender waits until control messages are sent. MPI sends them
// later if need be.
const controlWait = time.Second

func (t *transport) control(kind byte, b []byte) {
	var sent []*mpi.Request
	for r := range t.peers {
		if r == t.p.Rank || t.Closed(r) {
			continue
		}
		sent = append(sent, t.sendControl(r, kind, b))
	}
	waitAll(sent, controlWait)
}

func (t *transport) sendControl(rank int, kind byte, b []byte) *mpi.Request {
	buf := mpi.NewBuffer(maxControl)
	encodeControl(buf.B, kind, t.p.Rank, b)
	return t.comm.Send(buf, rank, controlTag)
}

// waitAll waits for requests up to d.
func waitAll(rs []*mpi.Request, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for _, r := range rs {
		select {
		case <-r.Done():
		case <-timer.C:
			return
		}
	}
}

// askTime limits the wait for an answer.
const askTime = 300 * time.Millisecond

// ask asks a rank whether it has reached an operation of a group.
func (t *transport) ask(rank, group int, seq uint64) bool {
	if t.Closed(rank) {
		return false
	}
	answer := make(chan bool, 1)
	t.mu.Lock()
	n := t.asked
	t.asked++
	t.answers[n] = answer
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		delete(t.answers, n)
		t.mu.Unlock()
	}()
	b := binary.LittleEndian.AppendUint32(nil, n)
	b = binary.LittleEndian.AppendUint32(b, uint32(group))
	t.sendControl(rank, msgAsk, binary.LittleEndian.AppendUint64(b, seq))
	select {
	case joined := <-answer:
		return joined
	case <-time.After(askTime):
		return false
	}
}

func (t *transport) answer(rank int, b []byte) {
	if len(b) != 16 || rank == t.p.Rank {
		return
	}
	t.mu.Lock()
	m := t.groups[int(binary.LittleEndian.Uint32(b[4:]))]
	t.mu.Unlock()
	joined := byte(0)
	if m != nil && m.reached.Load() > binary.LittleEndian.Uint64(b[8:]) {
		joined = 1
	}
	t.sendControl(rank, msgAnswer, append(b[:4:4], joined))
}

func (t *transport) answered(b []byte) {
	if len(b) != 5 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := binary.LittleEndian.Uint32(b)
	if c := t.answers[n]; c != nil {
		c <- b[4] == 1
		delete(t.answers, n)
	}
}

// SendFailure sends f to all ranks.
func (t *transport) SendFailure(f *collective.Failure) { t.control(msgFailure, f.Encode()) }

// Close sends msgBye after this rank's messages, and receives what is still sent to it: a send of MPI that
// nobody receives would never be done, and MPI_Finalize would wait for it. Peers that do not close their
// world delay it by closedWait, or controlWait if they have not received everything.
func (t *transport) Close() error {
	t.mu.Lock()
	groups := slices.Collect(maps.Values(t.groups))
	t.mu.Unlock()
	began := time.Now()
	said := false
	for ; ; time.Sleep(time.Millisecond) {
		sending := false
		for _, m := range groups {
			sending = m.drain() || sending
		}
		waited := time.Since(began)
		if !said && (!sending || waited > closedWait) {
			said = true
			t.control(msgBye, nil)
		}
		if said && !sending && (t.allClosed() || waited > closedWait) || waited > controlWait {
			break
		}
	}
	close(t.stop)
	t.wg.Wait()
	for _, m := range groups {
		m.free()
	}
	return nil
}

func (t *transport) allClosed() bool {
	for r := range t.peers {
		if r != t.p.Rank && !t.Closed(r) {
			return false
		}
	}
	return true
}
