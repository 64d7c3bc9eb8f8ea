package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"trireme/collective"
)

// Control messages: type, length (two bytes), contents.
const (
	msgFailure = 1 + iota // collective.Failure
	msgBye                // the sender has closed its world
)

const maxMessage = 2048

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
	n := int(binary.LittleEndian.Uint16(h[1:]))
	if h[0] < msgFailure || h[0] > msgBye || n > maxMessage {
		return 0, nil, errMessage
	}
	_, err = io.ReadFull(r, buf[:n])
	return h[0], buf[:n], err
}

func (t *transport) readControl(p *peer) {
	defer t.wg.Done()
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
		}
	}
}

func (t *transport) peerLost(p *peer, err error) {
	f := &collective.Failure{Kind: collective.ErrPeerLost, Rank: t.rank, Lost: []int{p.rank},
		Text: fmt.Sprintf("%s is lost: its connection ended: %v", t.Describe(p.rank), err)}
	if t.failure.Set(f) {
		t.SendFailure(f)
	}
}

// SendFailure writes to all peers concurrently, so that one that does not read blocks no other.
func (t *transport) SendFailure(f *collective.Failure) {
	b := f.Encode()
	sent := make(chan struct{}, len(t.peers))
	n := 0
	for _, p := range t.peers {
		if p != nil {
			n++
			go func() {
				_ = p.write(msgFailure, b) // the peer may be lost
				sent <- struct{}{}
			}()
		}
	}
	for range n {
		<-sent
	}
}
