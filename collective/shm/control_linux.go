package shm

import (
	"sync/atomic"
	"unsafe"

	"trireme/collective"
)

const (
	magic     = 0x31656d6572697274 // trireme1
	headBytes = 64 << 10           // of the control region before the channels
	maxGroups = 256
)

// head is the start of a rank's control region.
type head struct {
	Magic    uint64
	Rank     uint32
	Size     uint32
	CellSize uint32
	Closed   uint32 // atomic: the rank has closed its world
	Bell     uint32 // atomic futex: incremented when another rank fails
	Failed   uint32 // atomic: Failure is set
	Mapped   uint64 // atomic: bytes of the arena that the owner has mapped
	_        [20]byte
	FailLen  uint32
	Failure  [2048]byte
}

// control is the control region of the caller or a peer.
type control struct {
	mem   []byte
	ranks int // connected ranks
}

// controlBytes returns the size of the control region if n ranks are connected.
func controlBytes(n int) int { return headBytes + maxGroups*stride(n) }

// stride returns the bytes reserved for the channels of a group.
func stride(n int) int {
	return (collective.NumChannels(n)*int(unsafe.Sizeof(collective.ChannelState{})) + 4095) &^ 4095
}

func (c control) head() *head { return (*head)(unsafe.Pointer(unsafe.SliceData(c.mem))) }

func (c control) channel(group, ch int) *collective.ChannelState {
	off := headBytes + group*stride(c.ranks) + ch*int(unsafe.Sizeof(collective.ChannelState{}))
	return (*collective.ChannelState)(unsafe.Pointer(&c.mem[off]))
}

// setFailure is called once, by the owner.
func (h *head) setFailure(f *collective.Failure) {
	h.FailLen = uint32(copy(h.Failure[:], f.Encode()))
	atomic.StoreUint32(&h.Failed, 1)
}

func (h *head) failure() *collective.Failure {
	if atomic.LoadUint32(&h.Failed) == 0 {
		return nil
	}
	f, err := collective.DecodeFailure(h.Failure[:min(h.FailLen, uint32(len(h.Failure)))])
	if err != nil {
		return nil
	}
	return f
}
