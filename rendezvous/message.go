package rendezvous

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

type op uint8

const (
	opSet op = iota + 1
	opGet
	opAdd
	opGather
	opAwait     // opGather with a time-out only for ranks that have not joined
	opAbort     // value: a Failure
	opBye       // also sent by the store when it closes
	opOK        // answer; value: the result
	opFail      // answer; value: the error text
	opTimeout   // answer; value: a Failure
	opLost      // sent by the store: a rank is lost; value: a Failure
	opRefused   // sent by the store: this rank cannot join; value: a Failure
	opNote      // sent by the store; value: a line for Config.Note
	opHeartbeat // both ways
	opTryGet    // opGet that does not wait
	opNone      // answer: the key has no value
	opClock     // answer: rank 0's clock (trace.Now), u64
	lastOp      = opClock
)

// Limits of keys and values, in bytes.
const (
	maxKey   = 1024
	maxValue = 16 << 20
)

// message is a request or an answer:
//
//	id u32, op u8, timeout u32 (milliseconds), key (u16 length, bytes), value (the rest)
//
// An answer has its request's id.
type message struct {
	id      uint32
	op      op
	timeout time.Duration
	key     string
	value   []byte
}

func (m message) encode() []byte {
	b := make([]byte, 0, 11+len(m.key)+len(m.value))
	b = binary.BigEndian.AppendUint32(b, m.id)
	b = append(b, byte(m.op))
	b = binary.BigEndian.AppendUint32(b, uint32(min(m.timeout.Milliseconds(), 1<<31)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(m.key)))
	b = append(b, m.key...)
	return append(b, m.value...)
}

func decodeMessage(b []byte) (message, error) {
	if len(b) < 11 {
		return message{}, fmt.Errorf("rendezvous: invalid message of %d bytes", len(b))
	}
	m := message{id: binary.BigEndian.Uint32(b), op: op(b[4]), timeout: time.Duration(binary.BigEndian.Uint32(b[5:])) * time.Millisecond}
	n := int(binary.BigEndian.Uint16(b[9:]))
	switch {
	case m.op == 0 || m.op > lastOp:
		return message{}, fmt.Errorf("rendezvous: unknown operation %d", m.op)
	case n > maxKey || n > len(b)-11:
		return message{}, errors.New("rendezvous: the key is longer than its message")
	case len(b)-11-n > maxValue:
		return message{}, errors.New("rendezvous: the value is longer than 16 MiB")
	}
	m.key, m.value = string(b[11:11+n]), b[11+n:]
	return m, nil
}

// encodeList encodes values: u32 count, then u32 length and bytes of each.
func encodeList(vs [][]byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(vs)))
	for _, v := range vs {
		b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
		b = append(b, v...)
	}
	return b
}

func decodeList(b []byte) ([][]byte, error) {
	bad := errors.New("rendezvous: malformed list")
	if len(b) < 4 {
		return nil, bad
	}
	n := binary.BigEndian.Uint32(b)
	if b = b[4:]; uint64(n)*4 > uint64(len(b)) {
		return nil, bad
	}
	vs := make([][]byte, 0, n)
	for range n {
		if len(b) < 4 {
			return nil, bad
		}
		size := binary.BigEndian.Uint32(b)
		if b = b[4:]; uint64(size) > uint64(len(b)) {
			return nil, bad
		}
		vs = append(vs, b[:size:size])
		b = b[size:]
	}
	if len(b) != 0 {
		return nil, bad
	}
	return vs, nil
}
