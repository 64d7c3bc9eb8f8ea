package tokenizer

import (
	"fmt"
	"sync"

	"trireme/fault"
)

// Tokenizer turns text into ids and back. It is safe for several goroutines at once.
type Tokenizer struct {
	spelled []string // by id: the model's token as its file spells it
	inModel []bool   // by id: whether the model has one
	names   []string // by id: the added token, or else the model's; "" where an id is unused
	texts   []string // by id: what the token stands for where it is neither first nor last
	ids     map[string]int32
	added   []AddedToken
	special map[int32]bool

	raw, cooked *matcher // added tokens before and after normalisation
	normal      normalizer
	splits      []splitter
	model       model
	template    template
	decoder     decoder

	firstMatters, lastMatters bool // to the decoder

	bos, eos, pad int32
	parts         parts  // the sections of tokenizer.json that say all this
	sentencepiece []byte // the file tokenizer.model that says it instead, or nil

	path   string // the file that Load read
	mu     sync.Mutex
	idle   []*encoder
	failed error // the first of Append
}

// Options says how a text is encoded. The zero value encodes it alone and takes
// <|endoftext|> and its like in it for the tokens that they name, as Hugging Face does with
// add_special_tokens=False.
type Options struct {
	AddSpecialTokens   bool // put the tokens around the text that the model expects, such as <|begin_of_text|>
	SplitSpecialTokens bool // special tokens in the text are ordinary text
}

// Encode gives the ids of a text.
func (t *Tokenizer) Encode(text string, o Options) []int32 {
	return t.Append(make([]int32, 0, len(text)/3+8), text, o)
}

// Append appends the ids of a text to dst. With room in dst it allocates nothing for text
// that the normalizer leaves alone. Where a pattern of the tokenizer's file backtracks without
// end it gives up after 10 seconds: the ids are then none, and Err is not nil.
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

// fail keeps the first failure.
func (t *Tokenizer) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil {
		t.failed = fault.Try(fmt.Errorf("tokenizer: %s: %w", t.path, err), "another tokenizer")
	}
}

// Err is the first failure of Encode, Append or EncodePair, by any goroutine; ids that were made
// since are not to be used. It is nil as long as all of them were right.
func (t *Tokenizer) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// EncodePair gives the ids of two texts, such as a question and a passage, and the token
// type of each id, which tells a model like BERT to which text it belongs.
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

// VocabSize is the number of ids: all ids are below it.
func (t *Tokenizer) VocabSize() int { return len(t.names) }

// ID is the id of a token, spelled as tokenizer.json does; -1 when there is none.
func (t *Tokenizer) ID(token string) int32 {
	if id, ok := t.ids[token]; ok {
		return id
	}
	return -1
}

// Token is the token of an id, spelled as tokenizer.json does; "" when there is none.
func (t *Tokenizer) Token(id int32) string {
	if id < 0 || int(id) >= len(t.names) {
		return ""
	}
	return t.names[id]
}

// BOS, EOS and PAD are the tokens that begin and end a document and fill up a row; -1 where
// the tokenizer has none.
func (t *Tokenizer) BOS() int32 { return t.bos }

// EOS ends a document; see BOS.
func (t *Tokenizer) EOS() int32 { return t.eos }

// PAD fills up a row; see BOS.
func (t *Tokenizer) PAD() int32 { return t.pad }

// IsSpecial says whether an id is a special token.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.special[id] }
