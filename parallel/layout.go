package parallel

import (
	"sort"

	"trireme/nn"
	"trireme/tensor"
)

// span is a range of elements [lo, hi) of a flat.
type span struct{ lo, hi int }

func (s span) len() int { return s.hi - s.lo }

func (s span) intersect(o span) span {
	m := span{max(s.lo, o.lo), min(s.hi, o.hi)}
	if m.hi < m.lo {
		m.hi = m.lo
	}
	return m
}

// layout is the shard layout of a flat: parameter offsets, and the ranges that this rank owns. Ranges, and runs
// of parameters that are multiplied as one matrix, are aligned to tensor.SumBlock, so that sums over blocks
// do not depend on the rest of the flat.
type layout struct {
	params []*nn.Param
	groups []int  // per parameter, ascending: index into Engine.settings
	starts []int  // offset of each parameter
	gaps   []span // padding between and after parameters
	padded int    // length

	param, grad span // kept on this rank
	optim       span // updated on this rank; for frozen parameters, its shard
	master      span // kept in F32
	own         span // owned by this rank alone in Mesh.Data
}

type grouped struct {
	*nn.Param
	group int
}

// newLayout lays out parameters, which are ordered by group. Each parameter and each rank's range
// start at a multiple of block.
func newLayout(params []grouped, s Strategy, m *Mesh, frozen bool, block int) layout {
	l := layout{}
	end := 0
	upTo := func(n int) int {
		at := (end + n - 1) / n * n
		if at > end {
			l.gaps = append(l.gaps, span{end, at})
		}
		return at
	}
	align := max(tensor.SumBlock, block)
	for i, q := range params {
		if i == 0 || q.FusedAfter != params[i-1].Param || q.group != params[i-1].group || end%block != 0 {
			end = upTo(align)
		}
		l.params, l.groups, l.starts = append(l.params, q.Param), append(l.groups, q.group), append(l.starts, end)
		end += q.Local.Elems()
	}
	l.padded = upTo(m.ranks() * align)
	whole := span{0, l.padded}
	shard := l.padded / m.Size(Shard)
	part := span{m.Coordinate(Shard) * shard, (m.Coordinate(Shard) + 1) * shard}
	pick := func(divided bool) span {
		if divided {
			return part
		}
		return whole
	}
	l.param, l.grad, l.optim = pick(s.Params), pick(s.Grads), pick(s.Optimizer || frozen)
	l.master = l.optim
	own := l.padded / m.ranks()
	l.own = span{m.chunk() * own, (m.chunk() + 1) * own}
	return l
}

// ends returns the element of s at which each of n groups from first on ends. Padding belongs to the
// group before it.
func (l *layout) ends(s span, first, n int) []int64 {
	out := make([]int64, n)
	for i := range out {
		end := l.padded
		if next := sort.SearchInts(l.groups, first+i+1); next < len(l.starts) {
			end = l.starts[next]
		}
		out[i] = int64(min(max(end, s.lo), s.hi) - s.lo)
	}
	return out
}

func (l *layout) gapsIn(s span) (out []span) {
	for _, g := range l.gaps {
		if m := s.intersect(g); m.len() > 0 {
			out = append(out, m)
		}
	}
	return out
}

// each calls f for each parameter that intersects s: elements [first, first+n) of Param.Local are
// elements [at, at+n) of the flat.
func (l *layout) each(s span, f func(p *nn.Param, first, at, n int)) {
	for i, p := range l.params {
		start := l.starts[i]
		m := s.intersect(span{start, start + p.Local.Elems()})
		if m.len() > 0 {
			f(p, m.lo-start, m.lo, m.len())
		}
	}
}
