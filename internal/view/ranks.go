package view

import (
	"cmp"
	"fmt"
	"slices"

	"trireme/monitor"
)

// rankRow is the line of all ranks.
func (f *frame) rankRow() (out row) {
	s, r := f.o.s, f.last
	out.item().add(s.dim, s.reset, "ranks  ").add(s.bold, s.reset, fmt.Sprint(r.WorldSize))
	if r.Skew > 0 {
		out.item().add("", "", "  ").add(s.dim, s.reset, "slowest ").add(f.slow(), s.reset, fmt.Sprint(r.SlowRank))
		out.item().add("", "", fmt.Sprintf("  %.2f times the median", r.Skew))
	}
	return out
}

// skewed is the skew from which the slowest rank is marked as a warning.
const skewed = 1.1

func (f *frame) slow() string {
	if f.last.Skew >= skewed {
		return f.o.s.warn
	}
	return ""
}

// rankLines returns up to n lines, one per rank. Of more ranks it shows the slowest.
func (f *frame) rankLines(n int) (out []row) {
	t := f.last.Ranks
	if t == nil || n < 1 {
		return []row{f.rankRow()}
	}
	ranks := make([]int, len(t.Own))
	most := 0.0
	for i := range ranks {
		ranks[i] = i
		most = max(most, t.Own[i]+at(t.Comm, i))
	}
	if len(ranks) > n {
		slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(t.Own[b], t.Own[a]) })
		ranks = ranks[:n]
		slices.Sort(ranks)
	}
	for _, i := range ranks {
		out = append(out, f.rankLine(t, i, most))
	}
	return out
}

func at(values []float64, i int) float64 {
	if i < len(values) {
		return values[i]
	}
	return 0
}

// rankLine shows a rank's own time as a bar. The rest is waits for others.
func (f *frame) rankLine(t *monitor.Ranks, i int, most float64) (out row) {
	s := f.o.s
	slowest := i == f.last.SlowRank && f.last.Skew > 0
	style := s.accent
	if slowest && f.last.Skew >= skewed {
		style = s.warn
	}
	out.item().add(s.dim, s.reset, pad(fmt.Sprintf("rank %d", i), 7)).add(s.bold, s.reset, padLeft(formatSeconds(t.Own[i]), 8))
	if n := min(f.width-64, 40); n >= 8 && most > 0 {
		out.item().add("", "", "  ").bar(s, f.o.unicode, style, t.Own[i]/most, n)
	}
	if slowest {
		mark := "◀ slowest"
		if !f.o.unicode {
			mark = "< slowest"
		}
		out.item().add("", "", "  ").add(f.slow(), s.reset, mark)
	}
	out.field(s, "data", formatSeconds(at(t.Data, i)))
	out.field(s, "waits", formatSeconds(at(t.Comm, i)))
	if v := at(t.Save, i); v > 0 {
		out.field(s, "save", formatSeconds(v))
	}
	return out
}
