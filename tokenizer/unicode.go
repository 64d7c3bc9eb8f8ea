package tokenizer

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/rangetable"
)

// Hugging Face's tables of marks and punctuation are those of Unicode 8, and its decompositions those
// of Unicode 9. Characters assigned later are in none of them, which models trained on its output
// depend on. The few exceptions are characters that changed their category since.
var (
	unicode8 = rangetable.Assigned("8.0.0")
	unicode9 = rangetable.Assigned("9.0.0")
)

// isControl reports whether BERT's normalizer drops r.
func isControl(r rune) bool {
	switch r {
	case '\t', '\n', '\r':
		return false
	case 0, utf8.RuneError:
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) && unicode.Is(unicode8, r)
}

// isAccent reports whether BERT's normalizer strips mark r.
func isAccent(r rune) bool {
	switch r {
	case 0x1734:
		return true
	case 0x1885, 0x1886, 0xa9bd, 0x111c9:
		return false
	}
	return unicode.Is(unicode.Mn, r) && unicode.Is(unicode8, r)
}

// isMark reports whether StripAccents strips r.
func isMark(r rune) bool {
	switch r {
	case 0x1cf2, 0x1cf3:
		return true
	case 0x111c9:
		return false
	}
	return unicode.IsMark(r) && unicode.Is(unicode9, r)
}

// isPunct reports whether r is Unicode punctuation or an ASCII symbol.
func isPunct(r rune) bool {
	if r < utf8.RuneSelf {
		return r > ' ' && r < 0x7f && ascii[r] == other
	}
	return r == 0x166d || r == 0x111c9 || unicode.IsPunct(r) && unicode.Is(unicode8, r)
}

// isWord reports whether r matches \w.
func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return r == '_' || ascii[r] == letter || ascii[r] == number
	}
	return r == 0x200c || r == 0x200d ||
		unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic)
}

// lower appends the lower case of a character, which may be two characters.
func lower(dst []byte, r rune) []byte {
	if r == 0x130 {
		return append(dst, "i\u0307"...)
	}
	return utf8.AppendRune(dst, unicode.ToLower(r))
}
