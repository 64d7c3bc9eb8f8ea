package data

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"trireme/fault"
)

// rowEncoder encodes tokenized rows: input_ids and, optionally, labels, attention_mask and label.
// Without labels every token is one. Tokens with attention_mask 0 have no label, and other tokens
// do not attend to them.
type rowEncoder struct{}

var _ encoder = rowEncoder{}

func (rowEncoder) fingerprint() string { return "input_ids" }

func (rowEncoder) encode(r *record, ex *example) (ok bool, err error) {
	if _, ok := r.fields["input_ids"]; !ok {
		return false, fault.Try(fmt.Errorf("no input_ids: the row has keys %s", r.keys()), "input_ids in every row, or another data.format")
	}
	if ex.IDs, err = ints(ex.IDs, r, "input_ids"); err != nil {
		return false, err
	}
	n := len(ex.IDs)
	if n == 0 {
		return false, errors.New("input_ids is empty")
	}
	if low := slices.Min(ex.IDs); low < 0 {
		return false, fmt.Errorf("token id %d is negative", low)
	}
	if ex.Labels, err = ints(ex.Labels, r, "labels"); err != nil {
		return false, err
	}
	if k := len(ex.Labels); k > 0 && k != n {
		return false, fmt.Errorf("labels has length %d, but input_ids has %d", k, n)
	}
	for _, l := range ex.Labels {
		if l < 0 && l != Ignored {
			return false, fmt.Errorf("label %d is neither a token nor %d", l, Ignored)
		}
	}
	mask, err := ints(nil, r, "attention_mask")
	if err != nil {
		return false, err
	}
	if k := len(mask); k > 0 && k != n {
		return false, fmt.Errorf("attention_mask has length %d, but input_ids has %d", k, n)
	}
	for i, m := range mask {
		if m != 0 && m != 1 {
			return false, fmt.Errorf("attention_mask is %d at position %d: it must be 0 or 1", m, i+1)
		}
	}
	if slices.Contains(mask, 0) {
		for _, m := range mask {
			ex.Hidden = append(ex.Hidden, m == 0)
		}
	}
	if v := r.fields["label"]; v != nil {
		if ex.Class, err = int32Of(v); err != nil {
			return false, fmt.Errorf("label: %w", err)
		}
	}
	return true, nil
}

// ints appends the list of a key; absent or null is empty.
func ints(dst []int32, r *record, key string) ([]int32, error) {
	v := r.fields[key]
	if v == nil {
		return dst, nil
	}
	list, ok := v.([]any)
	if !ok {
		return dst, fmt.Errorf("%s is %s, not a list of numbers", key, typeName(v))
	}
	for _, v := range list {
		i, err := int32Of(v)
		if err != nil {
			return dst, fmt.Errorf("%s: %w", key, err)
		}
		dst = append(dst, i)
	}
	return dst, nil
}

func int32Of(v any) (int32, error) {
	i, ok := v.(int64)
	if !ok {
		return 0, fmt.Errorf("%s, not an integer", typeName(v))
	}
	if i != int64(int32(i)) {
		return 0, fmt.Errorf("%d is too large: integers are limited to %d", i, math.MaxInt32)
	}
	return int32(i), nil
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case int64, float64:
		return fmt.Sprintf("the number %v", v)
	case []any:
		return "a list"
	}
	return "an object"
}

func vocabError(id int32, vocab int) error {
	return fault.Try(fmt.Errorf("token id %d is outside the model's vocabulary of %d: the data was tokenized for another model", id, vocab), "the tokenizer's model, or %s", fault.Set("model.vocab_size", id+1))
}

// checkVocab returns an error if an id of the token file is not below vocab; 0: not checked.
func (t *tokenFile) checkVocab(vocab int) error {
	if vocab == 0 || int(t.maxID) < vocab {
		return nil
	}
	var r Row
	for i := range t.docs {
		if err := t.fill(&r, t.begin(i), t.end(i)); err != nil {
			return fmt.Errorf("data: %s: %w", t.where(i), err)
		}
		for _, ids := range [][]int32{r.InputIDs, r.Labels} {
			for _, id := range ids {
				if int(id) >= vocab {
					return fmt.Errorf("data: %s: %w", t.where(i), vocabError(id, vocab))
				}
			}
		}
	}
	return nil
}
