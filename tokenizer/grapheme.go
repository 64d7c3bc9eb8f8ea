package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// graphemeLen returns the length of the grapheme cluster at the start of s, by rules GB3 to GB5 and GB9
// of Unicode Standard Annex 29. The rules for Hangul, emoji and Indic conjuncts are omitted: their
// clusters have six bytes or more, which charsMap replaces character by character.
func graphemeLen(s string) int {
	r, n := runeAt(s, 0)
	if r < utf8.RuneSelf && len(s) > n && s[n] < utf8.RuneSelf {
		if r == '\r' && s[n] == '\n' {
			return 2
		}
		return n
	}
	if isBreak(r) {
		return n
	}
	for prepend := isPrepend(r); n < len(s); {
		next, m := runeAt(s, n)
		if isBreak(next) || !prepend && !isExtend(next) {
			break
		}
		prepend = isPrepend(next)
		n += m
	}
	return n
}

// isBreak reports whether r is always a cluster of its own.
func isBreak(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && !isExtend(r) && !isPrepend(r)
}

// isExtend reports whether r extends a cluster: Extend, ZWJ and SpacingMark.
func isExtend(r rune) bool {
	switch {
	case r < 0x300:
		return false
	case r == 0x200c, r == 0x200d, r == 0xe33, r == 0xeb3, 0x1f3fb <= r && r <= 0x1f3ff, 0xe0020 <= r && r <= 0xe007f:
		return true
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Other_Grapheme_Extend):
		return true
	}
	return unicode.Is(unicode.Mc, r) && !unicode.Is(notSpacing, r)
}

// notSpacing are the marks of category Mc that are not SpacingMark.
var notSpacing = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x102b, 0x102c, 1}, {0x1038, 0x1038, 1}, {0x1062, 0x1064, 1}, {0x1067, 0x106d, 1}, {0x1083, 0x1083, 1}, {0x1087, 0x108c, 1},
		{0x108f, 0x108f, 1}, {0x109a, 0x109c, 1}, {0x1a61, 0x1a61, 1}, {0x1a63, 0x1a64, 1}, {0xaa7b, 0xaa7b, 1}, {0xaa7d, 0xaa7d, 1},
	},
	R32: []unicode.Range32{{0x11720, 0x11721, 1}},
}

// isPrepend reports whether the next character joins r's cluster.
func isPrepend(r rune) bool {
	return r >= 0x600 && (unicode.Is(unicode.Prepended_Concatenation_Mark, r) || r == 0xd4e)
}
