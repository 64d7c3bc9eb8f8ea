package data

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"trireme/fault"
	"trireme/internal/ordered"
	"trireme/tokenizer"
)

type record struct {
	where  string         // FILE:LINE, or FILE and the number of a row
	fields map[string]any // nil, bool, string, int64, float64, []any, ordered.Map

	// A long text file is several records.
	rest bool // continues the previous record
	more bool // the next record continues this one
}

func (r *record) keys() string {
	if len(r.fields) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(r.fields)), ", ")
}

// rowsInside returns the key of a list of objects in the record, "" if there is none.
func (r *record) rowsInside() string {
	for _, key := range slices.Sorted(maps.Keys(r.fields)) {
		if list, _ := r.fields[key].([]any); len(list) > 0 {
			if _, ok := list[0].(ordered.Map); ok {
				return key
			}
		}
	}
	return ""
}

// example is a tokenized record. Its slices are empty when encode is called, and valid until the
// next call.
type example struct {
	IDs    []int32
	Labels []int32 // the token at each position, or Ignored; empty: as IDs
	Hidden []bool  // attention_mask is 0: not attended to, no label; empty: none
	Class  int32   // class label; initially Ignored, which is none
}

// encoder tokenizes records. It is safe for concurrent use.
type encoder interface {
	// fingerprint identifies the encoder in the cache key, beside files and tokenizer.
	fingerprint() string
	// encode sets ex from r, which is reused afterwards. ok is false if the record has no labels;
	// such records are counted and reported. The caller adds the record's origin to errors.
	encode(r *record, ex *example) (ok bool, err error)
}

// textEncoder encodes text: the template's prefix, the text, and one end-of-text token. Every token
// is a label.
type textEncoder struct {
	field  string
	tok    *tokenizer.Tokenizer
	prefix []int32
	suffix []int32
}

func newTextEncoder(field string, tok *tokenizer.Tokenizer) *textEncoder {
	e := &textEncoder{field: field, tok: tok}
	plain, whole := tok.Encode("a", tokenizer.Options{}), tok.Encode("a", tokenizer.Options{AddSpecialTokens: true})
	for i := range len(whole) - len(plain) + 1 {
		if slices.Equal(whole[i:i+len(plain)], plain) {
			e.prefix, e.suffix = whole[:i], whole[i+len(plain):]
			break
		}
	}
	if eos := tok.EOS(); eos >= 0 && (len(e.suffix) == 0 || e.suffix[len(e.suffix)-1] != eos) {
		e.suffix = append(slices.Clone(e.suffix), eos)
	}
	return e
}

var _ encoder = (*textEncoder)(nil)

func (e *textEncoder) fingerprint() string { return fmt.Sprintf("text %q", e.field) }

func (e *textEncoder) encode(r *record, ex *example) (bool, error) {
	text, err := r.text(e.field)
	if err != nil || text == "" && !r.rest {
		return false, err
	}
	if !r.rest {
		ex.IDs = append(ex.IDs, e.prefix...)
	}
	ex.IDs = e.tok.Append(ex.IDs, text, tokenizer.Options{})
	if !r.more {
		ex.IDs = append(ex.IDs, e.suffix...)
	}
	return true, nil
}

// sameCut is source.sameCut for this tokenizer.
func (e *textEncoder) sameCut(whole, before, after string) bool {
	ids := e.tok.Append(e.tok.Encode(before, tokenizer.Options{}), after, tokenizer.Options{})
	return slices.Equal(ids, e.tok.Encode(whole, tokenizer.Options{}))
}

func (r *record) text(key string) (string, error) {
	v, ok := r.fields[key]
	if !ok {
		return "", fault.Try(fmt.Errorf("no key %q: the row has keys %s", key, r.keys()), "%s", fault.Set("data.text_field", "KEY"))
	}
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("%s is %s, not a string", key, typeName(v))
	}
	return s, nil
}
