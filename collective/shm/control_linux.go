package shm

import (
	"sync/atomic"
	"unsafe"

	"trireme/collective"
)

const (
	magic     = 0x31656d6572697274 // trireme1
	headBytes = 64 << 10           // of the control part, before the cells
	maxGroups = 256
)

// head begins a rank's control part. What has several words is guarded by its version: odd
// while it is written.
type head struct {
	Magic    uint64
	Rank     uint32
	Size     uint32
	CellSize uint32
	Closed   uint32 // atomic: the rank has closed its world in order
	Bell     uint32 // atomic, a futex: others ring it when they have failed
	Failed   uint32 // atomic: Failure is there
	Mapped   uint64 // atomic: bytes of the arena that the owner has mapped, all that it shows
	_        [16]byte
	NoteVer  uint32 // atomic
	FailLen  uint32
	Note     collective.LastOp
	Failure  [2048]byte
}

// control is a rank's control part, the caller's own or a peer's.
type control struct {
	mem   []byte
	ranks int // of the world
}

// controlBytes is the size of the control part of a world of n ranks.
func controlBytes(n int) int { return headBytes + maxGroups*stride(n) }

// stride is what the cells of one group take at most.
func stride(n int) int {
	return ((1+2*n)*int(unsafe.Sizeof(collective.ChannelState{})) + 4095) &^ 4095
}

func (c control) head() *head { return (*head)(unsafe.Pointer(unsafe.SliceData(c.mem))) }

// cell is a channel's cell in a group.
func (c control) cell(group, ch int) *collective.ChannelState {
	off := headBytes + group*stride(c.ranks) + ch*int(unsafe.Sizeof(collective.ChannelState{}))
	return (*collective.ChannelState)(unsafe.Pointer(&c.mem[off]))
}

// setNote is called by the owner, under a lock.
func (h *head) setNote(n *collective.LastOp) {
	v := atomic.AddUint32(&h.NoteVer, 1)
	h.Note = *n
	atomic.StoreUint32(&h.NoteVer, v+1)
}

// note reads what the owner may be writing.
func (h *head) note() (n collective.LastOp, ok bool) {
	for range 1000 {
		v := atomic.LoadUint32(&h.NoteVer)
		n = h.Note
		if v&1 == 0 && atomic.LoadUint32(&h.NoteVer) == v {
			return n, true
		}
	}
	return n, false // its owner ended in the middle of writing
}

// setFailure is called by the owner, once.
func (h *head) setFailure(f *collective.Failure) {
	h.FailLen = uint32(copy(h.Failure[:], f.Encode()))
	atomic.StoreUint32(&h.Failed, 1)
}

// failure is nil where there is none.
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
