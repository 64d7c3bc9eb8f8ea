package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// bertNormalizer is BERT's normalizer; steps in field order.
type bertNormalizer struct {
	clean     bool // drop control characters, map white space to spaces
	chinese   bool // surround ideographs with spaces
	accents   bool // strip accents
	lowercase bool
}

func (b bertNormalizer) normalize(s string) string {
	dst := make([]byte, 0, len(s)+len(s)/8)
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			i++
			dst = b.ascii(dst, s[i-1])
			continue
		}
		// ASCII and other characters do not interact below.
		hi := i + 1
		for hi < len(s) && s[hi] >= utf8.RuneSelf {
			hi++
		}
		dst = b.others(dst, s[i:hi])
		i = hi
	}
	return string(dst)
}

func (b bertNormalizer) ascii(dst []byte, c byte) []byte {
	if b.clean {
		switch {
		case c == '\t' || c == '\n' || c == '\r':
			c = ' '
		case c < ' ' || c == 0x7f:
			return dst
		}
	}
	if b.lowercase && 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return append(dst, c)
}

// others appends s, which has no ASCII.
func (b bertNormalizer) others(dst []byte, s string) []byte {
	from := len(dst)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch k := classOfBert(r); {
		case b.clean && k&bertControl != 0:
		case b.clean && k&bertSpace != 0:
			dst = append(dst, ' ')
		case b.chinese && k&bertChinese != 0:
			dst = append(dst, ' ')
			dst = append(dst, s[i:i+n]...)
			dst = append(dst, ' ')
		default:
			dst = append(dst, s[i:i+n]...)
		}
		i += n
	}
	if b.accents {
		apart := normalForm(norm.NFD, string(dst[from:]))
		dst = append(dst[:from], without(apart, func(r rune) bool { return classOfBert(r)&bertAccent != 0 })...)
	}
	if b.lowercase {
		low := appendLower(nil, string(dst[from:]))
		dst = append(dst[:from], low...)
	}
	return dst
}

// Character classes of BERT's normalizer and pre-tokenizer.
const (
	bertControl = 1 << iota
	bertSpace
	bertChinese
	bertAccent
	bertPunct
)

// bertClasses has the classes of the basic multilingual plane.
var bertClasses = sync.OnceValue(func() *[1 << 16]uint8 {
	t := new([1 << 16]uint8)
	for r := range t {
		t[r] = bertClass(rune(r))
	}
	return t
})

func classOfBert(r rune) uint8 {
	if r < 1<<16 {
		return bertClasses()[r]
	}
	return bertClass(r)
}

func bertClass(r rune) (k uint8) {
	for bit, is := range [...]func(rune) bool{isControl, unicode.IsSpace, isChinese, isAccent, isPunct} {
		if is(r) {
			k |= 1 << bit
		}
	}
	return k
}

// isChinese reports BERT's ideograph blocks.
func isChinese(r rune) bool {
	return 0x4e00 <= r && r <= 0x9fff || 0x3400 <= r && r <= 0x4dbf || 0xf900 <= r && r <= 0xfaff ||
		0x20000 <= r && r <= 0x2a6df || 0x2a700 <= r && r <= 0x2b81f || 0x2b920 <= r && r <= 0x2ceaf || 0x2f800 <= r && r <= 0x2fa1f
}

// bertSplit splits at white space and around punctuation.
type bertSplit struct{}

var _ splitter = bertSplit{}

func (bertSplit) split(s string, first bool, emit pieceFunc) {
	classes := bertClasses()
	lo := 0
	for i := 0; i < len(s); {
		n, k := 1, uint8(0)
		if c := s[i]; c < utf8.RuneSelf {
			k = classes[c]
		} else {
			var r rune
			r, n = utf8.DecodeRuneInString(s[i:])
			k = classOfBert(r)
		}
		if k&(bertSpace|bertPunct) != 0 {
			if lo < i {
				emit(s[lo:i], first)
				first = false
			}
			if k&bertSpace == 0 {
				emit(s[i:i+n], first)
				first = false
			}
			lo = i + n
		}
		i += n
	}
	if lo < len(s) {
		emit(s[lo:], first)
	}
}
