package data

import (
	"fmt"
	"slices"
	"strings"

	"trireme/tokenizer"
)

// spanEncoder tokenizes text where only some spans are labels.
type spanEncoder struct {
	tok            *tokenizer.Tokenizer
	prefix, suffix []int32 // around a document's text
	eos            string  // as text; "": none
	all            bool    // every token is a label
}

func newSpanEncoder(tok *tokenizer.Tokenizer, all bool) spanEncoder {
	t := newTextEncoder("", tok)
	return spanEncoder{tok, t.prefix, t.suffix, tok.Token(tok.EOS()), all}
}

type piece struct {
	text  string
	label bool
}

// document encodes a whole document with the tokens around it. The end token is a label if the last
// piece is.
func (a *spanEncoder) document(ex *example, pieces []piece) bool {
	ex.IDs = append(ex.IDs, a.prefix...)
	from := len(ex.IDs)
	text, spans := joined(pieces)
	ex.IDs = a.tok.Append(ex.IDs, text, tokenizer.Options{})
	labels := a.tokenRanges(text, ex.IDs[from:], spans)
	if n := len(ex.IDs); n == from || len(a.suffix) == 0 || ex.IDs[n-1] != a.suffix[len(a.suffix)-1] {
		ex.IDs = append(ex.IDs, a.suffix...)
	}
	end := len(spans) > 0 && spans[len(spans)-1][1] == len(text)
	return a.label(ex, from, labels, end)
}

func joined(pieces []piece) (text string, spans [][2]int) {
	var b strings.Builder
	for _, p := range pieces {
		from := b.Len()
		b.WriteString(p.text)
		if p.label && p.text != "" {
			spans = append(spans, [2]int{from, b.Len()})
		}
	}
	return b.String(), spans
}

// label sets the labels of tokens from on: those in ranges and, with end, all after the last range.
// It reports whether there are any.
func (a *spanEncoder) label(ex *example, from int, ranges [][2]int, end bool) bool {
	if len(ranges) == 0 {
		return false
	}
	if a.all {
		return true
	}
	for range ex.IDs {
		ex.Labels = append(ex.Labels, Ignored)
	}
	if end {
		ranges[len(ranges)-1][1] = len(ex.IDs) - from
	}
	for _, r := range ranges {
		copy(ex.Labels[from+r[0]:], ex.IDs[from+r[0]:from+r[1]])
	}
	// The first token has no position before it to predict it.
	return slices.ContainsFunc(ex.Labels[1:], func(l int32) bool { return l != Ignored })
}

// tokenRanges returns, for each span of text (bytes, non-empty, ascending), the range of ids that
// overlaps it.
func (a *spanEncoder) tokenRanges(text string, ids []int32, spans [][2]int) [][2]int {
	out := make([][2]int, len(spans))
	ends, exact := a.ends(text, ids)
	for i, s := range spans {
		if exact {
			// From the first token that ends after the span's start, to the first that starts at
			// its end.
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

// ends returns the byte offset in text where each token ends. exact is false if the tokens do not
// spell the text, as after normalization.
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

// common counts the tokens that begin shares with the whole text's ids. whole reports whether these
// are all of its tokens, so that a token ends where begin does.
func (a *spanEncoder) common(begin string, ids []int32) (n int, whole bool) {
	part := a.tok.Encode(begin, tokenizer.Options{})
	for n < len(part) && n < len(ids) && part[n] == ids[n] {
		n++
	}
	return n, n == len(part)
}

// fingerprint is the part of the cache key common to these encoders.
func (a *spanEncoder) fingerprint() string { return fmt.Sprintf("all %v", a.all) }
