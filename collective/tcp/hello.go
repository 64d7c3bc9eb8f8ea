package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// hello says what a connection is for. It is authenticated.
type hello struct {
	from, to, size uint32
	group          uint32 // id of the group, or control
	conn           uint32
	key            uint64 // hash of the group's name and ranks
}

const (
	control    = ^uint32(0)
	helloBytes = 28
)

func (h hello) encode() []byte {
	var b []byte
	for _, v := range []uint32{h.from, h.to, h.size, h.group, h.conn} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return binary.LittleEndian.AppendUint64(b, h.key)
}

func decodeHello(b []byte) (hello, error) {
	if len(b) != helloBytes {
		return hello{}, errors.New("malformed hello")
	}
	le := binary.LittleEndian
	h := hello{le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint32(b[16:]), le.Uint64(b[20:])}
	if h.from >= h.size || h.to >= h.size || h.from <= h.to || h.conn > 1 {
		return hello{}, fmt.Errorf("invalid hello from rank %d to rank %d of %d, connection %d", h.from, h.to, h.size, h.conn)
	}
	return h, nil
}
