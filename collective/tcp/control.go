package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"trireme/collective"
)

// Control messages: type, length (two bytes), contents.
const (
	msgFailure = 1 + iota // collective.Failure
	msgBye                // the sender has closed its world
	msgAsk                // number u32, group u32, seq u64: has the receiver reached the operation?
	msgAnswer             // number u32, 1 if it has
)

const (
	maxMessage  = 2048
	askBytes    = 16
	answerBytes = 5
)

// write sends one message. It times out if the peer does not read.
func (p *peer) write(kind byte, b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	b = b[:min(len(b), maxMessage)]
	if err := p.conn.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	_, err := p.conn.Write(append([]byte{kind, byte(len(b)), byte(len(b) >> 8)}, b...))
	return err
}

var errMessage = errors.New("malformed message")

// readMessage reads one message into buf, which has maxMessage bytes.
func readMessage(r io.Reader, buf []byte) (kind byte, b []byte, err error) {
	var h [3]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, nil, err
	}
	kind, n := h[0], int(binary.LittleEndian.Uint16(h[1:]))
	if kind < msgFailure || kind > msgAnswer || n > maxMessage || kind == msgAsk && n != askBytes || kind == msgAnswer && n != answerBytes {
		return 0, nil, errMessage
	}
	_, err = io.ReadFull(r, buf[:n])
	return kind, buf[:n], err
}

func (t *transport) readControl(p *peer) {
	buf := make([]byte, maxMessage)
	for {
		kind, b, err := readMessage(p.conn, buf)
		if err != nil {
			select {
			case <-t.stop:
			default:
				t.peerLost(p, err)
			}
			return
		}
		switch kind {
		case msgFailure:
			if f, err := collective.DecodeFailure(b); err == nil {
				t.failure.Set(f)
			}
		case msgBye:
			p.closed.Store(true)
			return
		case msgAsk:
			answer := append(make([]byte, 0, answerBytes), b[:4]...)
			answer = append(answer, t.hasReached(binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint64(b[8:])))
			t.wg.Go(func() { _ = p.write(msgAnswer, answer) }) // not here: both sides may ask
		case msgAnswer:
			p.asked.Lock()
			if ch := p.answers[binary.LittleEndian.Uint32(b)]; ch != nil {
				ch <- b[4] == 1
				delete(p.answers, binary.LittleEndian.Uint32(b))
			}
			p.asked.Unlock()
		}
	}
}

func (t *transport) peerLost(p *peer, err error) {
	t.fail(&collective.Failure{Kind: collective.ErrPeerLost, Rank: t.rank, Lost: []int{p.rank},
		Text: fmt.Sprintf("%s is lost: its connection ended: %v", t.Describe(p.rank), err)})
}

// SendFailure writes to all peers concurrently, so that one that does not read blocks no other.
func (t *transport) SendFailure(f *collective.Failure) {
	if t.local != nil {
		t.local.SendFailure(f)
	}
	b := f.Encode()
	var sent sync.WaitGroup
	for _, p := range t.peers {
		if p != nil {
			sent.Go(func() { _ = p.write(msgFailure, b) }) // the peer may be lost
		}
	}
	sent.Wait()
}

// hasReached returns 1 if the caller has reached an operation of a group.
func (t *transport) hasReached(group uint32, seq uint64) byte {
	t.mu.Lock()
	m := t.groups[group]
	t.mu.Unlock()
	if m != nil && m.reached.Load() > seq {
		return 1
	}
	return 0
}

// askTime is the time in which a rank answers, unless it is stopped or unreachable.
const askTime = 300 * time.Millisecond

// ask asks a rank whether it has reached an operation of a group.
func (p *peer) ask(group uint32, seq uint64) bool {
	if p.closed.Load() {
		return false
	}
	answer := make(chan bool, 1)
	p.asked.Lock()
	n := p.next
	p.next++
	p.answers[n] = answer
	p.asked.Unlock()
	defer func() {
		p.asked.Lock()
		delete(p.answers, n)
		p.asked.Unlock()
	}()
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, askBytes), n)
	b = binary.LittleEndian.AppendUint32(b, group)
	if p.write(msgAsk, binary.LittleEndian.AppendUint64(b, seq)) != nil {
		return false
	}
	select {
	case joined := <-answer:
		return joined
	case <-time.After(askTime):
		return false
	}
}
