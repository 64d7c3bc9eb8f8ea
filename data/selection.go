package data

import (
	"fmt"
	"math/bits"
	"slices"

	"trireme/fault"
)

// selection is the documents of a token file that become rows.
type selection struct {
	file   *tokenFile
	maxLen int     // maximum tokens of one; the rest is truncated
	docs   []int32 // nil: all
	info   Info
}

type selectConfig struct {
	minLen   int  // tokens
	maxLen   int  // tokens; 0: unlimited
	truncate bool // truncate longer ones, instead of an error
	answers  bool // skip documents without labels
	text     bool // can be packed into rows of any length
}

// selectDocs scans all documents.
func (f *tokenFile) selectDocs(c selectConfig) (*selection, error) {
	sel := &selection{file: f, maxLen: c.maxLen, info: Info{
		MaxID: f.maxID, Docs: f.sections&flagHoles != 0, Classes: f.sections&secClasses != 0,
		Labels: f.sections&(secCounted|secReplaced) != 0, Skipped: int(f.skipped),
	}}
	if c.maxLen == 0 {
		sel.maxLen = f.longest
	}
	first, long, begin := 0, 0, int64(0)
	for i := range f.docs {
		lo, hi := f.unpadded(begin, f.end(i))
		begin = f.end(i)
		n := int(hi - lo)
		if n > sel.maxLen {
			if long++; long == 1 {
				first = i
			}
			if !c.truncate {
				continue
			}
			n = sel.maxLen
		}
		labels := f.labelCount(lo+1, lo+int64(n))
		if c.answers && labels == 0 && n >= c.minLen {
			sel.info.Skipped++
		}
		if n < c.minLen || c.answers && labels == 0 {
			sel.drop(i)
			continue
		}
		if sel.docs != nil {
			sel.docs = append(sel.docs, int32(i))
		}
		if int(hi-lo) > n {
			sel.info.Truncated++
		}
		sel.info.Length = max(sel.info.Length, n)
		sel.info.Tokens += int64(n)
		sel.info.LabelCount += labels
	}
	switch {
	case long > 0 && !c.truncate:
		return nil, f.tooLong(first, long, c)
	case sel.len() == 0 && c.answers && f.docs > 0:
		return nil, f.noLabels(sel.maxLen)
	case sel.len() == 0:
		return nil, fault.Try(fmt.Errorf("data: %s has no document of %d tokens or more", f.path, c.minLen), "another data.path")
	}
	return sel, nil
}

// drop excludes document i, the last so far.
func (sel *selection) drop(i int) {
	if sel.docs != nil {
		return
	}
	sel.docs = make([]int32, i, sel.file.docs)
	for k := range sel.docs {
		sel.docs[k] = int32(k)
	}
}

func (sel *selection) len() int {
	if sel.docs == nil {
		return sel.file.docs
	}
	return len(sel.docs)
}

// document is the document number of row i.
func (sel *selection) document(i int) int {
	if sel.docs == nil {
		return i
	}
	return int(sel.docs[i])
}

// span returns the tokens of row i.
func (sel *selection) span(i int) (lo, hi int64) {
	doc := sel.document(i)
	lo, hi = sel.file.unpadded(sel.file.begin(doc), sel.file.end(doc))
	return lo, min(hi, lo+int64(sel.maxLen))
}

// labelCount counts the labels of tokens lo to hi.
func (t *tokenFile) labelCount(lo, hi int64) int64 {
	if len(t.count) == 0 {
		return max(hi-lo, 0)
	}
	n := 0
	for ; lo < hi && lo&7 != 0; lo++ {
		n += int(t.count[lo>>3] >> (lo & 7) & 1)
	}
	for ; lo+8 <= hi; lo += 8 {
		n += bits.OnesCount8(t.count[lo>>3])
	}
	for ; lo < hi; lo++ {
		n += int(t.count[lo>>3] >> (lo & 7) & 1)
	}
	return int64(n)
}

// tooLong is the error for count documents longer than c allows; i is the first.
func (t *tokenFile) tooLong(i, count int, c selectConfig) error {
	n := t.end(i) - t.begin(i)
	others := ""
	if count > 1 {
		others = fmt.Sprintf(" (%s of %s rows are too long, the longest has %s)", thousands(count), thousands(t.docs), thousands(t.longest))
	}
	packing := ""
	if c.text {
		packing = "data.packing: true to split texts into rows, "
	}
	return fault.Try(fmt.Errorf("data: %s: %d tokens exceed sequence_length %d%s", t.where(i), n, c.maxLen, others), "%sdata.truncate: true, or data.sequence_length: %d", packing, t.longest)
}

// noLabels is the error if no document has labels within maxLen tokens.
func (t *tokenFile) noLabels(maxLen int) error {
	lengths := make([]int, t.docs)
	for i := range lengths {
		lengths[i] = int(t.end(i) - t.begin(i))
	}
	slices.Sort(lengths)
	median, want := lengths[len(lengths)/2], 1
	for want < median || want <= maxLen {
		want *= 2
	}
	all := thousands(t.docs)
	return fault.Try(fmt.Errorf("data: %s: no label tokens in %s of %s rows: prompts fill sequence_length %d (median row: %s tokens)", t.path, all, all, maxLen, thousands(median)), "%s", fault.Set("data.sequence_length", want))
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
