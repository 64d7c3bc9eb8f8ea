package data

import (
	"fmt"

	"trireme/tokenizer"
)

// classEncoder encodes one or two texts with a class label. Special tokens in the texts are
// tokenized as ordinary text, so the template's are identified by id.
type classEncoder struct {
	tok     *tokenizer.Tokenizer
	columns columns
	pair    bool
	labels  *labels
}

var _ encoder = (*classEncoder)(nil)

func (e *classEncoder) fingerprint() string {
	return fmt.Sprintf("class 1 %v %v %q %d", e.columns, e.pair, e.labels.names, e.labels.count)
}

func (e *classEncoder) encode(r *record, ex *example) (ok bool, err error) {
	if ex.Class, err = e.labels.of(e.columns.key("label"), e.columns.value(r, "label")); err != nil {
		return false, err
	}
	text, err := e.columns.text(r, "text")
	if err != nil {
		return false, err
	}
	o := tokenizer.Options{AddSpecialTokens: true, SplitSpecialTokens: true}
	if e.pair {
		second, err := e.columns.text(r, "text_pair")
		if err != nil {
			return false, err
		}
		ids, _ := e.tok.EncodePair(text, second, o)
		ex.IDs = append(ex.IDs, ids...)
	} else {
		ex.IDs = e.tok.Append(ex.IDs, text, o)
	}
	return len(ex.IDs) > 0, nil
}
