package tokenizer

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// wordsJSON is the section "model" of a WordPiece or WordLevel tokenizer.json.
type wordsJSON struct {
	Type     string           `json:"type"`
	Unk      *string          `json:"unk_token"`
	Prefix   *string          `json:"continuing_subword_prefix"`
	MaxChars *int             `json:"max_input_chars_per_word"`
	Vocab    map[string]int32 `json:"vocab"`
}

// wordPiece repeatedly takes the longest matching token (Schuster and Nakajima 2012, as in BERT). A
// word that cannot be fully matched is one unknown token.
type wordPiece struct {
	unkToken string
	prefix   string
	unk      int32
	maxChars int // longer words are unknown
	begin    *trie
	rest     *trie // continuation tokens without the prefix
}

var _ model = (*wordPiece)(nil)

func newWordPiece(f *wordsJSON) (*wordPiece, error) {
	w := &wordPiece{unkToken: "[UNK]", prefix: "##", maxChars: 100}
	if f.Unk != nil {
		w.unkToken = *f.Unk
	}
	if f.Prefix != nil {
		w.prefix = *f.Prefix
	}
	if f.MaxChars != nil {
		w.maxChars = *f.MaxChars
	}
	var err error
	if w.unk, err = unkOf(f.Vocab, w.unkToken); err != nil {
		return nil, err
	}
	var begin, rest []trieKey
	for token, id := range f.Vocab {
		begin = append(begin, trieKey{token, id})
		if s, ok := strings.CutPrefix(token, w.prefix); ok {
			rest = append(rest, trieKey{s, id})
		}
	}
	w.begin, w.rest = newTrie(begin), newTrie(rest)
	return w, nil
}

// unkOf returns the id of the unknown token.
func unkOf(vocab map[string]int32, token string) (int32, error) {
	id, ok := vocab[token]
	if !ok {
		return 0, fmt.Errorf("unk_token %.40q is not in the vocabulary: unknown words could not be encoded", token)
	}
	return id, nil
}

func (w *wordPiece) encode(dst []int32, piece string, _ *scratch) []int32 {
	if len(piece) > w.maxChars && utf8.RuneCountInString(piece) > w.maxChars {
		return append(dst, w.unk)
	}
	n, tokens := len(dst), w.begin
	for piece != "" {
		id, m := tokens.longest(piece)
		if m == 0 {
			return append(dst[:n], w.unk)
		}
		dst = append(dst, id)
		piece, tokens = piece[m:], w.rest
	}
	return dst
}

func (w *wordPiece) section(t *Tokenizer) (any, error) {
	vocab, err := t.vocabJSON()
	return struct {
		Type     string          `json:"type"`
		Unk      string          `json:"unk_token"`
		Prefix   string          `json:"continuing_subword_prefix"`
		MaxChars int             `json:"max_input_chars_per_word"`
		Vocab    json.RawMessage `json:"vocab"`
	}{"WordPiece", w.unkToken, w.prefix, w.maxChars, vocab}, err
}

func (w *wordPiece) describe(out io.Writer) {
	fmt.Fprintf(out, "WordPiece %d %q %d\n", w.unk, w.prefix, w.maxChars)
}

// wordLevel has one token per known word.
type wordLevel struct {
	unkToken string
	unk      int32
	vocab    map[string]int32
}

var _ model = (*wordLevel)(nil)

func newWordLevel(f *wordsJSON) (*wordLevel, error) {
	w := &wordLevel{unkToken: "<unk>", vocab: f.Vocab}
	if f.Unk != nil {
		w.unkToken = *f.Unk
	}
	var err error
	w.unk, err = unkOf(f.Vocab, w.unkToken)
	return w, err
}

func (w *wordLevel) encode(dst []int32, piece string, _ *scratch) []int32 {
	if id, ok := w.vocab[piece]; ok {
		return append(dst, id)
	}
	return append(dst, w.unk)
}

func (w *wordLevel) section(t *Tokenizer) (any, error) {
	vocab, err := t.vocabJSON()
	return struct {
		Type  string          `json:"type"`
		Vocab json.RawMessage `json:"vocab"`
		Unk   string          `json:"unk_token"`
	}{"WordLevel", vocab, w.unkToken}, err
}

func (w *wordLevel) describe(out io.Writer) { fmt.Fprintf(out, "WordLevel %d\n", w.unk) }
