package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// AddedToken is a token that is matched in the text before the model runs. Fields as in
// tokenizer.json.
type AddedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only if no word character is adjacent
	LStrip     bool   `json:"lstrip"`      // includes preceding white space
	RStrip     bool   `json:"rstrip"`      // and after it
	Normalized bool   `json:"normalized"`  // matched after normalization
	Special    bool   `json:"special"`     // skipped when decoding with skip_special_tokens
}

// matcher finds added tokens: leftmost, then longest.
type matcher struct {
	tokens []AddedToken
	texts  *trie // by index in tokens
	first  [256]bool
	only   string // the common first byte, or ""
}

// newMatcher matches the tokens with the given Normalized; nil if there are none. normal, which may
// be nil, normalizes the tokens to match after normalization.
func newMatcher(tokens []AddedToken, normalized bool, normal normalizer) *matcher {
	m := &matcher{tokens: tokens}
	var keys []trieKey
	begins := map[byte]bool{}
	for i, t := range tokens {
		want := t.Content
		if normalized && normal != nil {
			want = normal(want)
		}
		if t.Normalized != normalized || want == "" {
			continue
		}
		keys = append(keys, trieKey{want, int32(i)})
		m.first[want[0]] = true
		begins[want[0]] = true
		m.only = want[:1]
	}
	if keys == nil {
		return nil
	}
	if len(begins) > 1 {
		m.only = ""
	}
	m.texts = newTrie(keys)
	return m
}

// next finds the first added token in s[from:] and its range, including stripped white space; nil
// and len(s) if none. literal ignores special tokens.
func (m *matcher) next(s string, from int, literal bool) (t *AddedToken, lo, hi int) {
	if m == nil {
		return nil, len(s), len(s)
	}
	for i := from; i < len(s); i++ {
		if m.only != "" {
			skip := strings.IndexByte(s[i:], m.only[0])
			if skip < 0 {
				break
			}
			i += skip
		} else if !m.first[s[i]] {
			continue
		}
		k, n := m.texts.longest(s[i:])
		if n == 0 {
			continue
		}
		t, lo, hi := &m.tokens[k], i, i+n
		if literal && t.Special || t.SingleWord && !alone(s, lo, hi) {
			i = hi - 1 // no other match within these bytes
			continue
		}
		if t.LStrip {
			lo = from + len(strings.TrimRightFunc(s[from:lo], unicode.IsSpace))
		}
		if t.RStrip {
			hi = len(s) - len(strings.TrimLeftFunc(s[hi:], unicode.IsSpace))
		}
		return t, lo, hi
	}
	return nil, len(s), len(s)
}

// alone reports whether neither neighbor of s[lo:hi] belongs to a word.
func alone(s string, lo, hi int) bool {
	before, _ := utf8.DecodeLastRuneInString(s[:lo])
	after, _ := utf8.DecodeRuneInString(s[hi:])
	return (lo == 0 || !isWord(before)) && (hi == len(s) || !isWord(after))
}
