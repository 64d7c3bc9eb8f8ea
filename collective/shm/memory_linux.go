package shm

import (
	"errors"
	"sync/atomic"
	"time"

	"trireme/collective"
)

type memory struct {
	t      *transport
	id     int
	ranks  []int
	me     int
	copies [][2][]byte // by channel and slot: arena copies of memory outside the arena
}

var _ collective.Memory = (*memory)(nil)

func (p *memory) State(rank, ch int) *collective.ChannelState {
	return p.t.peers[p.ranks[rank]].control.channel(p.id, ch)
}

func (p *memory) Expose(ch, slot int, b []byte) []byte {
	off, ok := p.t.arena.Offset(b)
	if !ok {
		c := p.t.arena.Alloc(len(b))
		copy(c, b)
		p.copies[ch][slot] = c
		b = c
		off, _ = p.t.arena.Offset(b)
	}
	s := &p.State(p.me, ch).Slots[slot]
	s.Off, s.Len = int64(off), int64(len(b))
	return b
}

func (p *memory) Unexpose(ch, slot int) {
	if c := p.copies[ch][slot]; c != nil {
		p.t.arena.Free(c)
		p.copies[ch][slot] = nil
	}
}

var errRange = errors.New("collective/shm: a rank exposed memory outside its arena")

func (p *memory) Exposed(rank, ch, slot int) ([]byte, error) {
	s := &p.State(rank, ch).Slots[slot]
	off, n := s.Off, s.Len
	mem, err := p.t.peers[p.ranks[rank]].memory()
	if err != nil {
		return nil, err
	}
	if off < 0 || n < 0 || off > int64(len(mem)) || n > int64(len(mem))-off {
		return nil, errRange
	}
	return mem[off:][:n], nil
}

func (p *memory) Wait(rank, ch int, seen uint32, d time.Duration) {
	c := p.State(rank, ch)
	atomic.AddUint32(&c.Waiters, 1)
	futexWait(&c.Clock, seen, d)
	atomic.AddUint32(&c.Waiters, ^uint32(0))
}

func (p *memory) Wake(ch int) {
	c := p.State(p.me, ch)
	if atomic.LoadUint32(&c.Waiters) != 0 {
		futexWake(&c.Clock)
	}
}
