package tokenizer

import (
	"fmt"
	"sync"

	"trireme/fault"
)

// Tokenizer converts between text and ids. It is safe for concurrent use.
type Tokenizer struct {
	spelled []string // by id: the model's token as its file spells it
	inModel []bool   // by id: whether the model has a token
	names   []string // by id: the added token, else the model's; "" if unused
	texts   []string // by id: the decoded text, if neither first nor last
	ids     map[string]int32
	added   []AddedToken
	special map[int32]bool

	raw, cooked *matcher // added tokens before and after normalization
	normal      normalizer
	splits      []splitter
	model       model
	template    template
	decoder     decoder

	firstMatters, lastMatters bool // of the decoder

	bos, eos, pad int32
	parts         parts  // sections of tokenizer.json
	sentencepiece []byte // tokenizer.model, or nil

	path   string // of the loaded file
	mu     sync.Mutex
	idle   []*encoder
	failed error // by Append
}

// Options configures Encode. The zero value adds no special tokens and matches special tokens in
// the text, as Hugging Face with add_special_tokens=False.
type Options struct {
	AddSpecialTokens   bool // add the template's tokens, such as <|begin_of_text|>
	SplitSpecialTokens bool // treat special tokens in the text as ordinary text
}

// Encode returns the ids of a text.
func (t *Tokenizer) Encode(text string, o Options) []int32 {
	return t.Append(make([]int32, 0, len(text)/3+8), text, o)
}

// Append appends the ids of a text to dst. It does not allocate if dst has capacity and the
// normalizer does not change the text. If a pattern of the tokenizer backtracks for more than 10
// seconds, it returns no ids and sets Err.
func (t *Tokenizer) Append(dst []int32, text string, o Options) (ids []int32) {
	e := t.take()
	defer func() {
		if p := recover(); p != nil {
			t.fail(patternFailure(p))
			e.dst, ids = nil, dst
		}
		t.give(e)
	}()
	e.dst = dst
	if o.AddSpecialTokens && t.template.single != nil {
		for _, item := range t.template.single {
			if item.text != 0 {
				e.text(text, o.SplitSpecialTokens)
			} else {
				e.dst = append(e.dst, item.ids...)
			}
		}
	} else {
		e.text(text, o.SplitSpecialTokens)
	}
	dst, e.dst = e.dst, nil
	return dst
}

// fail keeps the first error.
func (t *Tokenizer) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil {
		t.failed = fault.Try(fmt.Errorf("tokenizer: %s: %w", t.path, err), "another tokenizer")
	}
}

// Err returns the first error of Encode, Append or EncodePair in any goroutine. Ids returned after
// it are invalid.
func (t *Tokenizer) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// EncodePair returns the ids and token types of two texts, such as a question and a passage.
func (t *Tokenizer) EncodePair(a, b string, o Options) (ids, types []int32) {
	items := t.template.pair
	if !o.AddSpecialTokens || items == nil {
		items = []templateItem{{text: 1}, {text: 2, kind: 1}}
	}
	for _, item := range items {
		switch item.text {
		case 0:
			ids = append(ids, item.ids...)
		case 1:
			ids = t.Append(ids, a, Options{SplitSpecialTokens: o.SplitSpecialTokens})
		default:
			ids = t.Append(ids, b, Options{SplitSpecialTokens: o.SplitSpecialTokens})
		}
		for len(types) < len(ids) {
			types = append(types, item.kind)
		}
	}
	return ids, types
}

// VocabSize returns the number of ids; every id is below it.
func (t *Tokenizer) VocabSize() int { return len(t.names) }

// ID returns the id of a token in tokenizer.json's spelling, or -1.
func (t *Tokenizer) ID(token string) int32 {
	if id, ok := t.ids[token]; ok {
		return id
	}
	return -1
}

// Token returns the token of an id in tokenizer.json's spelling, or "".
func (t *Tokenizer) Token(id int32) string {
	if id < 0 || int(id) >= len(t.names) {
		return ""
	}
	return t.names[id]
}

// BOS returns the token that starts a document, or -1.
func (t *Tokenizer) BOS() int32 { return t.bos }

// EOS returns the token that ends a document, or -1.
func (t *Tokenizer) EOS() int32 { return t.eos }

// PAD returns the padding token, or -1.
func (t *Tokenizer) PAD() int32 { return t.pad }

// IsSpecial reports whether id is a special token.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.special[id] }
