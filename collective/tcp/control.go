package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"trireme/collective"
)

// Messages for control: type, length (two bytes), contents.
const (
	msgFailure = 1 + iota // collective.Failure
	msgBye                // the sender has closed its world in order
	msgAsk                // what are you doing?
	msgAnswer             // text
)

const maxMessage = 2048

// write sends one message; it gives up on a peer that does not read.
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

var errMessage = errors.New("not a message")

// readMessage reads one message into buf, which holds maxMessage bytes.
func readMessage(r io.Reader, buf []byte) (kind byte, b []byte, err error) {
	var h [3]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, nil, err
	}
	n := int(binary.LittleEndian.Uint16(h[1:]))
	if h[0] < msgFailure || h[0] > msgAnswer || n > maxMessage {
		return 0, nil, errMessage
	}
	_, err = io.ReadFull(r, buf[:n])
	return h[0], buf[:n], err
}

// listen reads what a peer says until it is gone.
func (t *transport) listen(p *peer) {
	defer t.wg.Done()
	buf := make([]byte, maxMessage)
	for {
		kind, b, err := readMessage(p.conn, buf)
		if err != nil {
			select {
			case <-t.stop:
			default:
				t.lost(p, err)
			}
			return
		}
		switch kind {
		case msgFailure:
			if f, err := collective.DecodeFailure(b); err == nil {
				t.fault.Set(f)
			}
		case msgBye:
			p.gone.Store(true)
			return
		case msgAsk:
			t.wg.Add(1)
			go func() { // reading must not wait for writing: both sides may ask at once
				defer t.wg.Done()
				_ = p.write(msgAnswer, []byte(t.doing()))
			}()
		case msgAnswer:
			select {
			case p.answers <- string(b):
			default:
			}
		}
	}
}

// lost reports a peer whose connection ended without a goodbye.
func (t *transport) lost(p *peer, err error) {
	f := &collective.Failure{Kind: collective.ErrPeerLost, Rank: t.rank, Lost: []int{p.rank},
		Text: fmt.Sprintf("rank %d is lost: its connection at %v ended: %v", p.rank, p.conn.RemoteAddr(), err)}
	if t.fault.Set(f) {
		t.SendFailure(f)
	}
}

// SendFailure tells all at once, so that one that does not read holds up nobody.
func (t *transport) SendFailure(f *collective.Failure) {
	b := f.Encode()
	sent := make(chan struct{}, len(t.peers))
	n := 0
	for _, p := range t.peers {
		if p != nil {
			n++
			go func() {
				_ = p.write(msgFailure, b) // it may be the one that is lost
				sent <- struct{}{}
			}()
		}
	}
	for range n {
		<-sent
	}
}

// patience is how long Doing waits for an answer.
const patience = 300 * time.Millisecond

// LastOp asks the rank.
func (t *transport) LastOp(rank int) string {
	p := t.peers[rank]
	if p == nil {
		return t.doing()
	}
	if p.gone.Load() {
		return "it has closed its world"
	}
	select {
	case <-p.answers: // to an earlier question
	default:
	}
	if err := p.write(msgAsk, nil); err != nil {
		return "it cannot be asked: " + err.Error()
	}
	select {
	case s := <-p.answers:
		return s
	case <-time.After(patience):
		return "it does not answer (stopped, or cut off)"
	case <-t.stop:
		return "unknown"
	}
}
