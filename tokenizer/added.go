package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// AddedToken is a token that is matched in the text before the model runs. Its fields are those of
// tokenizer.json.
type AddedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only if no letter, digit or underscore is adjacent
	LStrip     bool   `json:"lstrip"`      // strips white space before it
	RStrip     bool   `json:"rstrip"`      // and after it
	Normalized bool   `json:"normalized"`  // matched after normalization
	Special    bool   `json:"special"`     // omitted when special tokens are skipped
}

// matcher finds added tokens: leftmost first, then longest.
type matcher struct {
	tokens []AddedToken
	texts  *trie // texts to match, by index in tokens
	first  [256]bool
	only   string // the common first byte of all texts, or ""
}

// newMatcher matches the tokens whose Normalized equals normalized, or returns nil if there are none.
// normal, which may be nil, is applied to their texts if normalized.
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

// next finds the first added token in s[from:] and the range it covers, stripped white space
// included, or nil and len(s). If literal, special tokens are not matched.
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
			i = hi - 1 // no other token matches in these bytes
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
