package tokenizer

import "unicode/utf8"

// cutSplit splits a text between characters that no merge ever joins. The ids do not change, but
// pieces become words, which are cached, for models without a pre-tokenizer: the merges of
// Llama 2 and Mistral never join a letter to a following space.
//
// Characters are grouped into classes: one per ASCII character, one for sentencepiece's space, one
// for all others.
type cutSplit struct {
	own    *trie                                 // tokens that are pieces of their own, or nil
	joined [cutClasses][cutClasses/64 + 1]uint64 // by left class: set of right classes that merges may join
}

const (
	cutSpace   = utf8.RuneSelf // U+2581, lower one eighth block
	cutOther   = cutSpace + 1
	cutClasses = cutOther + 1
	spaceRune  = '\u2581'
)

var _ splitter = (*cutSplit)(nil)

func cutClass(r rune) int {
	switch {
	case r < utf8.RuneSelf:
		return int(r)
	case r == spaceRune:
		return cutSpace
	}
	return cutOther
}

func (c *cutSplit) join(l, r int) { c.joined[l][r/64] |= 1 << (r % 64) }

func (c *cutSplit) joins(l, r int) bool { return c.joined[l][r/64]>>(r%64)&1 != 0 }

// newCutSplit finds the cuts of a model, or returns nil if there are none. spelled are the tokens by
// id. A piece must have the same tokens in any context.
func newCutSplit(b *runeBPE, spelled []string) *cutSplit {
	if b.vocab != nil {
		return nil
	}
	bytes := map[int32]bool{}
	if b.fallback != nil {
		for _, id := range b.fallback {
			if id < 0 {
				return nil // invalid UTF-8 depends on the preceding character
			}
			bytes[id] = true
		}
	}
	c := &cutSplit{own: b.own}
	c.join(cutOther, cutOther)
	for _, pair := range b.list {
		if bytes[pair[0]] || bytes[pair[1]] {
			return nil
		}
		l, _ := utf8.DecodeLastRuneInString(spelled[pair[0]])
		r, _ := utf8.DecodeRuneInString(spelled[pair[1]])
		c.join(cutClass(l), cutClass(r))
	}
	for l := range cutClasses {
		for r := range cutClasses {
			switch {
			case b.fallback != nil:
			case b.unk < 0 && (b.unknown(l) || b.unknown(r)): // dropped characters make their neighbors adjacent
				c.join(l, r)
			case b.FuseUnk && b.unknown(l) && b.unknown(r):
				c.join(l, r)
			}
		}
	}
	return c
}

// unknown reports whether a class has characters without token.
func (b *runeBPE) unknown(class int) bool {
	switch class {
	case cutOther:
		return true
	case cutSpace:
		_, ok := b.runes[spaceRune]
		return !ok
	}
	return b.ascii[class] < 0
}

func (c *cutSplit) split(s string, first bool, emit pieceFunc) {
	lo, left := 0, -1
	for i := 0; i < len(s); {
		if c.own != nil {
			if _, n := c.own.longest(s[i:]); n > 0 {
				if lo < i {
					emit(s[lo:i], first)
					first = false
				}
				emit(s[i:i+n], first)
				i += n
				lo, left, first = i, -1, false
				continue
			}
		}
		right, n := int(s[i]), 1
		if right >= utf8.RuneSelf {
			var r rune
			r, n = utf8.DecodeRuneInString(s[i:])
			right = cutClass(r)
		}
		if left >= 0 && !c.joins(left, right) {
			emit(s[lo:i], first)
			lo, first = i, false
		}
		i, left = i+n, right
	}
	if lo < len(s) {
		emit(s[lo:], first)
	}
}
