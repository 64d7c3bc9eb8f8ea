package data

import (
	"fmt"
	"slices"
	"strings"

	"trireme/tokenizer"
)

// answers turns text, of which some is to be learned and some is only read, into examples.
type spanEncoder struct {
	tok            *tokenizer.Tokenizer
	prefix, suffix []int32 // what a document has around its text
	eos            string  // as text; "" where there is none
	all            bool    // everything is learned
}

func newSpanEncoder(tok *tokenizer.Tokenizer, all bool) spanEncoder {
	t := newTextEncoder("", tok)
	return spanEncoder{tok, t.prefix, t.suffix, tok.Token(tok.EOS()), all}
}

// piece is a part of a text.
type piece struct {
	text  string
	learn bool
}

// document encodes pieces that are a whole document, with what goes around one. The end is
// learned if the last piece is.
func (a *spanEncoder) document(ex *example, pieces []piece) bool {
	ex.IDs = append(ex.IDs, a.prefix...)
	from := len(ex.IDs)
	text, spans := joined(pieces)
	ex.IDs = a.tok.Append(ex.IDs, text, tokenizer.Options{})
	learned := a.learned(text, ex.IDs[from:], spans)
	if n := len(ex.IDs); n == from || len(a.suffix) == 0 || ex.IDs[n-1] != a.suffix[len(a.suffix)-1] {
		ex.IDs = append(ex.IDs, a.suffix...)
	}
	end := len(spans) > 0 && spans[len(spans)-1][1] == len(text)
	return a.label(ex, from, learned, end)
}

func joined(pieces []piece) (text string, spans [][2]int) {
	var b strings.Builder
	for _, p := range pieces {
		from := b.Len()
		b.WriteString(p.text)
		if p.learn && p.text != "" {
			spans = append(spans, [2]int{from, b.Len()})
		}
	}
	return b.String(), spans
}

// label fills in the labels: of the tokens from on, those in the ranges of learned, and with
// end all after the last range. It says whether anything is learned.
func (a *spanEncoder) label(ex *example, from int, learned [][2]int, end bool) bool {
	if len(learned) == 0 {
		return false
	}
	if a.all {
		return true
	}
	for range ex.IDs {
		ex.Labels = append(ex.Labels, Ignored)
	}
	if end {
		learned[len(learned)-1][1] = len(ex.IDs) - from
	}
	for _, r := range learned {
		copy(ex.Labels[from+r[0]:], ex.IDs[from+r[0]:from+r[1]])
	}
	// Nothing comes before the first token, to predict it.
	return slices.ContainsFunc(ex.Labels[1:], func(l int32) bool { return l != Ignored })
}

// learned gives for each span of text, whose tokens are ids, the tokens that hold anything of
// it. Spans are bytes, not empty, and rise.
func (a *spanEncoder) learned(text string, ids []int32, spans [][2]int) [][2]int {
	out := make([][2]int, len(spans))
	ends, exact := a.ends(text, ids)
	for i, s := range spans {
		if exact {
			// The first token that ends after the span's beginning, up to the first that begins
			// at its end or later.
			lo, _ := slices.BinarySearch(ends, s[0]+1)
			hi, _ := slices.BinarySearch(ends, s[1])
			out[i] = [2]int{lo, min(hi+1, len(ids))}
			continue
		}
		lo, _ := a.common(text[:s[0]], ids)
		hi, whole := a.common(text[:s[1]], ids)
		if !whole {
			hi = min(hi+1, len(ids))
		}
		out[i] = [2]int{lo, max(lo, hi)}
	}
	return out
}

// ends gives where each token ends in text; exact is false where tokens are not its bytes one
// after another, as when it was normalised.
func (a *spanEncoder) ends(text string, ids []int32) (ends []int, exact bool) {
	ends = make([]int, len(ids))
	at := 0
	for i := range ids {
		part := a.tok.Decode(ids[i : i+1])
		if !strings.HasPrefix(text[at:], part) {
			return nil, false
		}
		at += len(part)
		ends[i] = at
	}
	return ends, at == len(text)
}

// common is how many tokens the beginning of a text has in common with all of it; whole says
// that they are all of its tokens, so that a token ends where it does.
func (a *spanEncoder) common(begin string, ids []int32) (n int, whole bool) {
	part := a.tok.Encode(begin, tokenizer.Options{})
	for n < len(part) && n < len(ids) && part[n] == ids[n] {
		n++
	}
	return n, n == len(part)
}

// fingerprint is what all tasks of answers depend on.
func (a *spanEncoder) fingerprint() string { return fmt.Sprintf("all %v", a.all) }
