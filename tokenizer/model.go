package tokenizer

import (
	"fmt"
	"io"
	"unicode/utf8"
)

// model tokenizes pieces of text.
type model interface {
	// encode appends the ids of piece, using the caller's scratch.
	encode(dst []int32, piece string, s *scratch) []int32
	// section returns the section "model" of tokenizer.json.
	section(t *Tokenizer) (any, error)
	// describe writes everything besides the tokens' spelling that determines the ids.
	describe(w io.Writer)
}

// scratch is working memory of the models.
type scratch struct {
	pairs      [shortPiece]uint64
	next, prev []int32
	heap       heap[candidate]
	path       []pathEnd
}

// trim frees the memory of very long pieces.
func (s *scratch) trim() {
	if cap(s.next) > 1<<16 || cap(s.path) > 1<<16 {
		*s = scratch{}
	}
}

// byteTokens are the tokens <0x00> to <0xFF> of a vocabulary, or -1.
type byteTokens [256]int32

// findByteTokens looks them up; all reports whether none is missing.
func findByteTokens(vocab map[string]int32) (t *byteTokens, all bool) {
	t, all = &byteTokens{}, true
	for b := range t {
		id, ok := vocab[fmt.Sprintf("<0x%02X>", b)]
		if !ok {
			id, all = -1, false
		}
		t[b] = id
	}
	return t, all
}

// appendAll appends the byte tokens of s, or nothing if one is missing.
func (t *byteTokens) appendAll(dst []int32, s string) ([]int32, bool) {
	n := len(dst)
	for i := range len(s) {
		id := t[s[i]]
		if id < 0 {
			return dst[:n], false
		}
		dst = append(dst, id)
	}
	return dst, true
}

// byteOf returns the byte of a token such as <0x0A>.
func byteOf(token string) (b byte, ok bool) {
	if len(token) != 6 || token[:3] != "<0x" || token[5] != '>' {
		return 0, false
	}
	for _, c := range []byte(token[3:5]) {
		switch {
		case '0' <= c && c <= '9':
			b = b<<4 | (c - '0')
		case 'A' <= c && c <= 'F':
			b = b<<4 | (c - 'A' + 10)
		default:
			return 0, false
		}
	}
	return b, true
}

// runeAt returns the rune at s[i] and its length; utf8.RuneError and 1 for invalid UTF-8.
func runeAt(s string, i int) (rune, int) {
	if c := s[i]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeRuneInString(s[i:])
}
