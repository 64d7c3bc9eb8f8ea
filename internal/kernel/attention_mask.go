package kernel

import "slices"

// AttentionMask says which positions of a sequence each position sees: position i sees j if
// Lo[i] <= j < Hi[i] and, with Docs not nil, Docs[j] == Docs[i].
type AttentionMask struct {
	Lo, Hi []int32
	Docs   []int32
}

// Set fills the mask for len(m.Lo) positions. causal hides j > i, window > 0 hides j <= i-window,
// docs (or nil) hides other documents. If each document is one contiguous run, ranges suffice and
// m.Docs is nil.
func (m *AttentionMask) Set(causal bool, window int, docs []int32) {
	n := len(m.Lo)
	m.Docs = nil
	runs := docs != nil && docRuns(docs, m.Hi)
	if docs != nil && !runs {
		m.Docs = docs
	}
	begin, end := 0, n
	for i := range n {
		if runs && (i == 0 || docs[i] != docs[i-1]) {
			begin, end = i, i+1
			for end < n && docs[end] == docs[i] {
				end++
			}
		}
		lo, hi := begin, end
		if causal {
			hi = i + 1
		}
		if window > 0 {
			lo = max(lo, i-window+1)
		}
		m.Lo[i], m.Hi[i] = int32(lo), int32(hi)
	}
}

// docRuns reports whether each document is one run. mem is scratch of len(docs).
func docRuns(docs, mem []int32) bool {
	starts := mem[:0]
	for i, d := range docs {
		if i == 0 || d != docs[i-1] {
			starts = append(starts, d)
		}
	}
	slices.Sort(starts)
	return len(slices.Compact(starts)) == len(starts)
}

// span returns the union of the ranges that positions [i0,i1) see.
func (m *AttentionMask) span(i0, i1 int) (first, last int) {
	if i0 >= i1 {
		return 0, 0
	}
	lo, hi := m.Lo[i0], m.Hi[i0]
	for i := i0 + 1; i < i1; i++ {
		lo, hi = min(lo, m.Lo[i]), max(hi, m.Hi[i])
	}
	return int(lo), int(hi)
}

// hide sets scores between documents to -Inf.
func (m *AttentionMask) hide(s []float32, ld int, t *attnTile, i, c int) {
	for r := range t.rows {
		own := m.Docs[i+r]
		row := s[r*ld:]
		for j := t.lo[r]; j < t.hi[r]; j++ {
			if m.Docs[c+int(j)] != own {
				row[j] = attnNegInf
			}
		}
	}
}
