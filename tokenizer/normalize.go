package tokenizer

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizer transforms a text before pre-tokenization; nil is the identity.
type normalizer func(s string) string

// then composes n and next.
func (n normalizer) then(next normalizer) normalizer {
	switch {
	case n == nil:
		return next
	case next == nil:
		return n
	}
	return func(s string) string { return next(n(s)) }
}

// readNormalizer reads the section "normalizer" of tokenizer.json.
func readNormalizer(raw json.RawMessage) (normalizer, error) {
	if absent(raw) {
		return nil, nil
	}
	var n struct {
		Type        string            `json:"type"`
		Normalizers []json.RawMessage `json:"normalizers"`
		CleanText   *bool             `json:"clean_text"`
		Chinese     *bool             `json:"handle_chinese_chars"`
		Accents     *bool             `json:"strip_accents"`
		Lowercase   *bool             `json:"lowercase"`
		Left        bool              `json:"strip_left"`
		Right       bool              `json:"strip_right"`
		Prepend     string            `json:"prepend"`
		Pattern     *pattern          `json:"pattern"`
		Content     string            `json:"content"`
		CharsMap    []byte            `json:"precompiled_charsmap"`
	}
	if err := decode(raw, &n); err != nil {
		return nil, err
	}
	switch n.Type {
	case "Sequence":
		var all normalizer
		for _, part := range n.Normalizers {
			next, err := readNormalizer(part)
			if err != nil {
				return nil, err
			}
			all = all.then(next)
		}
		return all, nil
	case "NFC":
		return form(norm.NFC), nil
	case "NFD":
		return form(norm.NFD), nil
	case "NFKC":
		return form(norm.NFKC), nil
	case "NFKD":
		return form(norm.NFKD), nil
	case "Lowercase":
		return lowercase, nil
	case "StripAccents":
		return func(s string) string { return without(s, isMark) }, nil
	case "Nmt":
		return func(s string) string { return nmtSpaces(without(s, nmtDrops)) }, nil
	case "Strip":
		return strip(n.Left, n.Right), nil
	case "Prepend":
		return func(s string) string {
			if s == "" {
				return ""
			}
			return n.Prepend + s
		}, nil
	case "Replace":
		return n.Pattern.replace(n.Content)
	case "ByteLevel":
		return toRunes, nil
	case "Precompiled":
		m, err := readCharsMap(n.CharsMap)
		if err != nil || m == nil {
			return nil, err
		}
		return m.graphemes, nil
	case "BertNormalizer":
		b := bertNormalizer{clean: orTrue(n.CleanText), chinese: orTrue(n.Chinese), lowercase: orTrue(n.Lowercase)}
		b.accents = b.lowercase
		if n.Accents != nil {
			b.accents = *n.Accents
		}
		return b.normalize, nil
	}
	return nil, unknownType(n.Type, "Sequence", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "Strip", "Prepend", "Replace", "ByteLevel", "Precompiled", "BertNormalizer")
}

func orTrue(p *bool) bool { return p == nil || *p }

func form(f norm.Form) normalizer { return func(s string) string { return normalForm(f, s) } }

// without removes the characters for which drop returns true.
func without(s string, drop func(rune) bool) string {
	var b strings.Builder
	lo := 0
	for i, r := range s {
		if !drop(r) {
			continue
		}
		b.WriteString(s[lo:i])
		_, n := runeAt(s, i)
		lo = i + n
	}
	if lo == 0 {
		return s
	}
	b.WriteString(s[lo:])
	return b.String()
}

func lowercase(s string) string {
	for i := range len(s) {
		if c := s[i]; c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			return string(appendLower(make([]byte, 0, len(s)), s))
		}
	}
	return s
}

func appendLower(dst []byte, s string) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			dst = append(dst, c)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError {
			dst = append(dst, s[i:i+n]...)
		} else {
			dst = lower(dst, r)
		}
		i += n
	}
	return dst
}

func strip(left, right bool) normalizer {
	return func(s string) string {
		if left {
			s = strings.TrimLeftFunc(s, unicode.IsSpace)
		}
		if right {
			s = strings.TrimRightFunc(s, unicode.IsSpace)
		}
		return s
	}
}

// nmtDrops and nmtSpaces are the rules of the Nmt normalizer: control characters are removed, white
// space becomes a space.
func nmtDrops(r rune) bool {
	switch r {
	case 0x0b, 0x7f, 0x8f, 0x9f:
		return true
	}
	return 1 <= r && r <= 8 || 0x0e <= r && r <= 0x1f
}

func nmtSpaces(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '\t', '\n', '\f', '\r', 0x1680, 0x2028, 0x2029, spaceRune, 0xfeff, utf8.RuneError:
			return ' '
		}
		if 0x200b <= r && r <= 0x200f {
			return ' '
		}
		return r
	}, s)
}
