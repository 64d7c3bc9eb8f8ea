package tokenizer

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"
)

// charsMap is sentencepiece's compiled table of replacements: a double-array trie whose values are
// offsets of zero-terminated replacements.
type charsMap struct {
	units []uint32
	texts string
}

// readCharsMap decodes a table; nil if empty.
func readCharsMap(b []byte) (*charsMap, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) < 4 {
		return nil, fmt.Errorf("precompiled_charsmap has %d bytes, too few for a table", len(b))
	}
	size := binary.LittleEndian.Uint32(b)
	b = b[4:]
	if size%4 != 0 || uint64(size) > uint64(len(b)) {
		return nil, fmt.Errorf("precompiled_charsmap declares a trie of %d bytes in %d", size, len(b))
	}
	m := &charsMap{units: make([]uint32, size/4), texts: string(b[size:])}
	for i := range m.units {
		m.units[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return m, nil
}

// match returns the length of the shortest or longest entry at the start of s, 0 if none, and its
// replacement.
func (m *charsMap) match(s string, shortest bool) (n int, text string) {
	if len(m.units) == 0 {
		return 0, ""
	}
	at := offsetOf(m.units[0])
	for i := range len(s) {
		c := s[i]
		at ^= uint32(c)
		if c == 0 || int(at) >= len(m.units) {
			break
		}
		u := m.units[at]
		if u&(1<<31|0xff) != uint32(c) {
			break
		}
		at ^= offsetOf(u)
		if u>>8&1 == 0 {
			continue
		}
		if int(at) >= len(m.units) {
			break
		}
		if v := int(m.units[at] &^ (1 << 31)); v < len(m.texts) {
			text, _, _ = strings.Cut(m.texts[v:], "\x00")
			n = i + 1
		}
		if shortest {
			break
		}
	}
	return n, text
}

// offsetOf returns the distance from a unit to its children.
func offsetOf(u uint32) uint32 { return u >> 10 << (u & (1 << 9) >> 6) }

// graphemes replaces as Hugging Face's Precompiled normalizer: a short grapheme cluster by the
// shortest entry at its start; if none, or in long clusters, each character.
func (m *charsMap) graphemes(s string) string {
	const long = 6
	var b strings.Builder
	b.Grow(len(s))
	for s != "" {
		n := graphemeLen(s)
		cluster := s[:n]
		s = s[n:]
		if n < long {
			if k, text := m.match(cluster, true); k > 0 {
				b.WriteString(text)
				continue
			}
		}
		for i := 0; i < len(cluster); {
			_, n := runeAt(cluster, i)
			one := cluster[i : i+n]
			if k, text := m.match(one, true); k > 0 {
				one = text
			}
			b.WriteString(one)
			i += n
		}
	}
	return b.String()
}

// longest replaces like sentencepiece: the longest entry at each position. Tokens in own, which may be
// nil, are kept. Invalid UTF-8 bytes become U+FFFD unless keep.
func (m *charsMap) longest(s string, own *trie, keep bool) (text string, n int) {
	if own != nil {
		if _, n := own.longest(s); n > 0 {
			return s[:n], n
		}
	}
	if m != nil {
		if n, text := m.match(s, false); n > 0 {
			return text, n
		}
	}
	r, n := runeAt(s, 0)
	if r == utf8.RuneError && n == 1 && !keep {
		return "\ufffd", 1
	}
	return s[:n], n
}
