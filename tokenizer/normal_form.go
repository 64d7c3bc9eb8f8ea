package tokenizer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalForm normalizes by Unicode 9: characters assigned later and invalid UTF-8 are kept.
func normalForm(f norm.Form, s string) string {
	if f.IsNormalString(s) {
		return s
	}
	dst := make([]byte, 0, len(s)+len(s)/8)
	lo := 0
	for i, r := range s {
		if r < utf8.RuneSelf || unicode.Is(unicode9, r) {
			continue
		}
		dst = appendForm(f, dst, s[lo:i])
		lo = i + utf8.RuneLen(r)
		dst = append(dst, s[i:lo]...)
	}
	return string(appendForm(f, dst, s[lo:]))
}

const graphemeJoiner = "\u034f"

// appendForm appends s in normal form. golang.org/x/text breaks runs of more than thirty marks with a
// joiner; those runs take appendLongForm.
func appendForm(f norm.Form, dst []byte, s string) []byte {
	made := f.String(s)
	if strings.Contains(made, graphemeJoiner) && strings.Count(made, graphemeJoiner) > strings.Count(s, graphemeJoiner) {
		return appendLongForm(f, dst, s)
	}
	return append(dst, made...)
}

// mark is a character or invalid byte, with its combining class.
type mark struct {
	text  string
	class uint8
}

// appendLongForm is the algorithm of Unicode Standard Annex 15, for runs of any length.
func appendLongForm(f norm.Form, dst []byte, s string) []byte {
	apart := norm.NFD
	if f == norm.NFKC || f == norm.NFKD {
		apart = norm.NFKD
	}
	var marks []mark
	for i := 0; i < len(s); {
		_, n := runeAt(s, i)
		part := apart.String(s[i : i+n])
		for k := 0; k < len(part); {
			_, m := runeAt(part, k)
			marks = append(marks, mark{part[k : k+m], norm.NFD.PropertiesString(part[k : k+m]).CCC()})
			k += m
		}
		i += n
	}
	for lo := 0; lo < len(marks); lo++ {
		hi := lo
		for hi < len(marks) && marks[hi].class != 0 {
			hi++
		}
		slices.SortStableFunc(marks[lo:hi], func(a, b mark) int { return int(a.class) - int(b.class) })
		lo = hi
	}
	if f == norm.NFC || f == norm.NFKC {
		marks = compose(marks)
	}
	for _, m := range marks {
		dst = append(dst, m.text...)
	}
	return dst
}

// compose composes starters with following marks that are not blocked.
func compose(marks []mark) []mark {
	out := marks[:0]
	starter, last := -1, uint8(0) // last is the class of the character after the starter
	for _, m := range marks {
		if starter >= 0 && (starter == len(out)-1 || last < m.class) {
			if one := norm.NFC.String(out[starter].text + m.text); utf8.RuneCountInString(one) == 1 {
				out[starter].text = one
				continue
			}
		}
		if last = m.class; m.class == 0 {
			starter = len(out)
		}
		out = append(out, m)
	}
	return out
}
