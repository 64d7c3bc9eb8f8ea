package mpi

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
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

	mu     sync.Mutex
	groups []*messages
}

// peer is the state of another rank.
type peer struct {
	once   sync.Once
	closed chan struct{} // closed when it has closed its world
}

var _ collective.Transport = (*transport)(nil)

// Tags: controlTag for control messages; group g has 1+2g for its operations and 2+2g for Send and Recv.
const (
	controlTag = 0
	maxGroups  = 16000 // MPI ensures tags up to 32767
)

func newTransport(p *mpi.Process, c *mpi.Comm, cfg Config) *transport {
	t := &transport{p: p, comm: c, timeout: cfg.Timeout, failure: collective.NewFailureOnce(), peers: make([]peer, cfg.Size), stop: make(chan struct{})}
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
func (t *transport) Join(id int, name string, ranks []int, me int) (collective.Memory, collective.Messages, error) {
	if id >= maxGroups {
		return nil, nil, fmt.Errorf("collective/mpi: more than %d groups", maxGroups)
	}
	f := fnv.New32a()
	fmt.Fprint(f, name, ranks)
	m := &messages{t: t, ranks: ranks, key: f.Sum32(), tag: 1 + 2*id, in: make([][2]inbound, len(ranks)), out: make([][2]outbound, len(ranks))}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.groups = append(t.groups, m)
	return nil, m, nil
}

// A control message is a kind, the sender's rank, the length of the content in two bytes, and the content.
const (
	msgFailure = 1 + iota // collective.Failure
	msgBye                // the sender has closed its world

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
	if kind < msgFailure || kind > msgBye || rank >= size || n > len(m)-controlHeader {
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
		buf := mpi.NewBuffer(maxControl)
		encodeControl(buf.B, kind, t.p.Rank, b)
		sent = append(sent, t.comm.Send(buf, r, controlTag))
	}
	waitAll(sent, controlWait)
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

// SendFailure sends f to all ranks.
func (t *transport) SendFailure(f *collective.Failure) { t.control(msgFailure, f.Encode()) }

// Close sends msgBye after this rank's messages, and receives what is still sent to it: a send of MPI that
// nobody receives would never be done, and MPI_Finalize would wait for it. Peers that do not close their
// world delay it by closedWait, or controlWait if they have not received everything.
func (t *transport) Close() error {
	t.mu.Lock()
	groups := t.groups
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
