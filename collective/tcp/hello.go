package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"trireme/collective"
)

// hello says what a connection is for. It is authenticated.
type hello struct {
	from, to, size uint32
	group          uint32 // id of the group, or control
	stream         uint32
	key            uint64 // hash of the group's name and ranks
}

const (
	control    = ^uint32(0)
	helloBytes = 28
)

func (h hello) encode() []byte {
	var b []byte
	for _, v := range []uint32{h.from, h.to, h.size, h.group, h.stream} {
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
	if h.from >= h.size || h.to >= h.size || h.from == h.to || h.stream >= 3*collective.MaxStripes {
		return hello{}, fmt.Errorf("invalid hello from rank %d to rank %d of %d, stream %d", h.from, h.to, h.size, h.stream)
	}
	return h, nil
}

// address is published by each rank: where it listens, the host that it runs on, and its limit of connections.
type address struct {
	listen      string
	host        uint32
	connections uint32
	name        string // of the host
}

const maxAddress = 512

func (a address) encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, a.host)
	b = append(b, byte(a.connections), byte(len(a.listen)))
	b = append(b, a.listen...)
	return append(b, a.name[:min(len(a.name), 255)]...)
}

func decodeAddress(b []byte) (address, error) {
	if len(b) < 6 || len(b) > maxAddress || len(b) < 6+int(b[5]) {
		return address{}, fmt.Errorf("malformed address of %d bytes", len(b))
	}
	a := address{host: binary.LittleEndian.Uint32(b), connections: uint32(b[4]), listen: string(b[6:][:b[5]]), name: string(b[6+int(b[5]):])}
	if a.connections < 1 || a.connections > collective.MaxStripes {
		return address{}, fmt.Errorf("an address with %d connections", a.connections)
	}
	return a, nil
}
