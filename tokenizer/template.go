package tokenizer

import (
	"encoding/json"
	"fmt"
)

// template adds special tokens around one text or a pair.
type template struct {
	single []templateItem // nil: the text alone
	pair   []templateItem // nil: both texts
}

// templateItem is special tokens or a text.
type templateItem struct {
	ids  []int32
	text int   // 1 or 2; 0: ids
	kind int32 // token type
}

// read parses the section "post_processor" of tokenizer.json. vocab is the number of ids.
func (t *template) read(raw json.RawMessage, vocab int) error {
	if absent(raw) {
		return nil
	}
	var n struct {
		Type       string                   `json:"type"`
		Processors []json.RawMessage        `json:"processors"`
		Single     json.RawMessage          `json:"single"`
		Pair       json.RawMessage          `json:"pair"`
		Tokens     map[string]templateToken `json:"special_tokens"`
		Sep        json.RawMessage          `json:"sep"`
		CLS        json.RawMessage          `json:"cls"`
	}
	if err := decode(raw, &n); err != nil {
		return err
	}
	switch n.Type {
	case "ByteLevel": // changes offsets only
		return nil
	case "Sequence":
		for _, part := range n.Processors {
			if err := t.read(part, vocab); err != nil {
				return err
			}
		}
		return nil
	}
	if t.single != nil {
		return fmt.Errorf("%s after another component that adds tokens is not supported", n.Type)
	}
	switch n.Type {
	case "TemplateProcessing":
		var err error
		if t.single, err = templateItems(n.Single, n.Tokens, vocab); err != nil {
			return err
		}
		t.pair, err = templateItems(n.Pair, n.Tokens, vocab)
		return err
	case "BertProcessing", "RobertaProcessing":
		cls, err := namedID(n.CLS, "cls", vocab)
		if err != nil {
			return err
		}
		sep, err := namedID(n.Sep, "sep", vocab)
		if err != nil {
			return err
		}
		if n.Type == "BertProcessing" {
			*t = bertTemplate(cls, sep)
		} else {
			*t = robertaTemplate(cls, sep)
		}
		return nil
	}
	return unknownType(n.Type, "Sequence", "ByteLevel", "TemplateProcessing", "BertProcessing", "RobertaProcessing")
}

func bertTemplate(cls, sep int32) template {
	return template{
		single: []templateItem{{ids: []int32{cls}}, {text: 1}, {ids: []int32{sep}}},
		pair:   []templateItem{{ids: []int32{cls}}, {text: 1}, {ids: []int32{sep}}, {text: 2, kind: 1}, {ids: []int32{sep}, kind: 1}},
	}
}

func robertaTemplate(cls, sep int32) template {
	return template{
		single: []templateItem{{ids: []int32{cls}}, {text: 1}, {ids: []int32{sep}}},
		pair:   []templateItem{{ids: []int32{cls}}, {text: 1}, {ids: []int32{sep, sep}}, {text: 2}, {ids: []int32{sep}}},
	}
}

// endsTemplate returns a template with bos and eos, unless -1.
func endsTemplate(bos, eos int32) template {
	around := func(kind int32, text int) (items []templateItem) {
		if bos >= 0 {
			items = append(items, templateItem{ids: []int32{bos}, kind: kind})
		}
		items = append(items, templateItem{text: text, kind: kind})
		if eos >= 0 {
			items = append(items, templateItem{ids: []int32{eos}, kind: kind})
		}
		return items
	}
	return template{single: around(0, 1), pair: append(around(0, 1), around(1, 2)...)}
}

// namedID parses ["[SEP]", 102].
func namedID(raw json.RawMessage, key string, vocab int) (int32, error) {
	var list []json.RawMessage
	var name string
	var id int32
	if err := json.Unmarshal(raw, &list); err != nil || len(list) != 2 || json.Unmarshal(list[0], &name) != nil || json.Unmarshal(list[1], &id) != nil {
		return 0, fmt.Errorf("%s is not [token, id]", key)
	}
	return id, checkID(name, id, vocab)
}

func checkID(name string, id int32, vocab int) error {
	if id < 0 || int(id) >= vocab {
		return fmt.Errorf("the template's %.40q has id %d, outside the vocabulary of %d", name, id, vocab)
	}
	return nil
}

type templateToken struct {
	IDs []int32 `json:"ids"`
}

// templateItems parses the list of a TemplateProcessing.
func templateItems(raw json.RawMessage, tokens map[string]templateToken, vocab int) ([]templateItem, error) {
	type named struct {
		ID   string `json:"id"`
		Type int32  `json:"type_id"`
	}
	var list []struct {
		SpecialToken *named
		Sequence     *named
	}
	if absent(raw) {
		return nil, nil
	}
	if err := decode(raw, &list); err != nil {
		return nil, err
	}
	var items []templateItem
	for _, item := range list {
		switch {
		case item.SpecialToken != nil:
			name := item.SpecialToken.ID
			token, ok := tokens[name]
			if !ok {
				return nil, fmt.Errorf("the template's %.40q is not among its special_tokens", name)
			}
			for _, id := range token.IDs {
				if err := checkID(name, id, vocab); err != nil {
					return nil, err
				}
			}
			items = append(items, templateItem{ids: token.IDs, kind: item.SpecialToken.Type})
		case item.Sequence != nil && item.Sequence.ID == "A":
			items = append(items, templateItem{text: 1, kind: item.Sequence.Type})
		case item.Sequence != nil && item.Sequence.ID == "B":
			items = append(items, templateItem{text: 2, kind: item.Sequence.Type})
		default:
			return nil, fmt.Errorf("the template has an item that is neither SpecialToken nor Sequence A or B")
		}
	}
	return items, nil
}
