package rendezvous

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"trireme/trace"
)

type gathering struct {
	values [][]byte
	have   []bool
	count  int
}

func (s *server) handle(p *peer, m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := func(o op, value []byte) { p.send(message{id: m.id, op: o, value: value}) }
	switch m.op {
	case opHeartbeat:
		if len(m.value) > 0 {
			s.received(p, m.value)
		}
	case opSet:
		s.put(m.key, m.value)
		reply(opOK, nil)
	case opAdd:
		sum, err := s.add(m.key, m.value)
		if err != nil {
			reply(opFail, []byte(err.Error()))
			return
		}
		reply(opOK, sum)
	case opGet:
		if v, ok := s.values[m.key]; ok {
			reply(opOK, v)
			return
		}
		s.wait(p, m)
	case opTryGet:
		if v, ok := s.values[m.key]; ok {
			reply(opOK, v)
			return
		}
		reply(opNone, nil)
	case opClock:
		reply(opOK, binary.BigEndian.AppendUint64(nil, uint64(trace.Now())))
	case opGather, opAwait:
		g := s.gathers[m.key]
		if g == nil {
			g = &gathering{values: make([][]byte, s.world), have: make([]bool, s.world)}
			s.gathers[m.key] = g
		}
		if g.have[p.rank] {
			reply(opFail, fmt.Appendf(nil, "rank %d calls AllGather of %q twice concurrently", p.rank, m.key))
			return
		}
		g.values[p.rank], g.have[p.rank] = m.value, true
		g.count++
		s.wait(p, m)
		if g.count == s.world {
			s.finish(m.key, g)
		}
	case opAbort:
		f := decodeFailure(ErrLost, m.value)
		if f.Rank < 0 || f.Rank == p.rank { // the rank's own failure
			f.Rank, f.Text = -1, fmt.Sprintf("rank %d stopped: %s", p.rank, f.Text)
		}
		s.fail(f)
		reply(opOK, nil)
	case opBye:
		s.left[p.rank] = true
		for w := range s.waits {
			if w.gathers() && !s.gathers[w.key].have[p.rank] {
				s.answer(w, opTimeout, leftFailure(p.rank, w.key))
			}
		}
		reply(opOK, nil)
	default:
		reply(opFail, []byte("unknown request"))
	}
}

func (s *server) put(key string, value []byte) {
	s.values[key] = value
	for w := range s.waits {
		if w.op == opGet && w.key == key {
			s.answer(w, opOK, value)
		}
	}
}

// add stores decimal numbers, which Get returns.
func (s *server) add(key string, delta []byte) ([]byte, error) {
	if len(delta) != 8 {
		return nil, fmt.Errorf("malformed delta of %d bytes", len(delta))
	}
	var n int64
	if v, ok := s.values[key]; ok {
		var err error
		if n, err = strconv.ParseInt(string(v), 10, 64); err != nil {
			return nil, fmt.Errorf("the value of %q is not a number", key)
		}
	}
	n += int64(binary.BigEndian.Uint64(delta))
	v := strconv.AppendInt(nil, n, 10)
	s.put(key, v)
	return v, nil
}

func (s *server) finish(key string, g *gathering) {
	delete(s.gathers, key)
	list, size := encodeList(g.values), 0
	if size = len(list); size > maxValue {
		list = nil
	}
	for w := range s.waits {
		switch {
		case !w.gathers() || w.key != key:
		case list == nil:
			s.answer(w, opFail, fmt.Appendf(nil, "the values of %q have %d bytes, the limit is %d", key, size, maxValue))
		default:
			s.answer(w, opOK, list)
		}
	}
}
