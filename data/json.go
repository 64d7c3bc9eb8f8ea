package data

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"trireme/fault"
	"trireme/internal/ordered"
)

// jsonReader parses JSON objects into fields of records. It is used by one goroutine.
type jsonReader struct {
	lenient bool              // invalid UTF-8 becomes U+FFFD
	names   map[string]string // interned keys
	in      bytes.Reader
	dec     *jsontext.Decoder
}

func newJSONReader(lenient bool) *jsonReader {
	j := &jsonReader{lenient: lenient, names: map[string]string{}}
	j.dec = jsontext.NewDecoder(&j.in, jsontext.AllowInvalidUTF8(lenient))
	return j
}

// maxNames bounds the interned keys: maps in rows may have any.
const maxNames = 1 << 12

// object sets fields to the members of the single object in b.
func (j *jsonReader) object(b []byte, fields map[string]any) error {
	clear(fields)
	j.in.Reset(b)
	j.dec.Reset(&j.in, jsontext.AllowInvalidUTF8(j.lenient))
	if k := j.dec.PeekKind(); k != '{' && k != 0 {
		return fmt.Errorf("%s, not a JSON object", kindName(k))
	}
	if err := j.members(func(key string, v any) { fields[key] = v }); err != nil {
		return jsonError(b, err)
	}
	if _, err := j.dec.ReadToken(); err == nil {
		return errors.New("not one JSON object: another value follows it")
	} else if rest := b[j.dec.InputOffset():]; len(bytes.TrimSpace(rest)) > 0 {
		return jsonError(b, err)
	}
	return nil
}

// members calls f for each member of an object, in order.
func (j *jsonReader) members(f func(key string, value any)) error {
	if _, err := j.dec.ReadToken(); err != nil {
		return err
	}
	for j.dec.PeekKind() != '}' {
		name, err := j.dec.ReadToken()
		if err != nil {
			return err
		}
		key := j.name(name.String())
		v, err := j.value()
		if err != nil {
			return err
		}
		f(key, v)
	}
	_, err := j.dec.ReadToken()
	return err
}

func (j *jsonReader) name(s string) string {
	if old, ok := j.names[s]; ok {
		return old
	}
	if len(j.names) < maxNames {
		j.names[s] = s
	}
	return s
}

func (j *jsonReader) value() (any, error) {
	switch j.dec.PeekKind() {
	case '{':
		m := ordered.Map{}
		err := j.members(func(key string, v any) { m = append(m, ordered.Member{Key: key, Value: v}) })
		return m, err
	case '[':
		if _, err := j.dec.ReadToken(); err != nil {
			return nil, err
		}
		list := []any{}
		for j.dec.PeekKind() != ']' {
			v, err := j.value()
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := j.dec.ReadToken()
		return list, err
	case '0':
		v, err := j.dec.ReadValue()
		if err != nil {
			return nil, err
		}
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n, nil
		}
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil {
			return nil, fmt.Errorf("the number %.40s is too large", v)
		}
		return f, nil
	}
	t, err := j.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case '"':
		return t.String(), nil
	case 't', 'f':
		return t.Bool(), nil
	}
	return nil, nil
}

// jsonError describes an error in the JSON object b.
func jsonError(b []byte, err error) error {
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return fmt.Errorf("not a JSON object: %w", err)
	}
	cause := syntax.Err.Error()
	if errors.Is(syntax.Err, jsontext.ErrDuplicateName) {
		return fmt.Errorf("duplicate key %q", syntax.JSONPointer.LastToken())
	}
	if jsontext.Value(b).IsValid(jsontext.AllowInvalidUTF8(true)) {
		if name := syntax.JSONPointer.LastToken(); name != "" {
			cause += fmt.Sprintf(" in %q", name)
		}
		return invalidText(cause)
	}
	return fmt.Errorf("not a JSON object: %s at byte %d of %d", cause, syntax.ByteOffset, len(b))
}

// invalidText is the error for text that is not UTF-8.
func invalidText(what string) error {
	return fault.Try(errors.New(what), "%s", fault.Set("data.invalid_utf8", "replace"))
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "a list"
	case 'n':
		return "null"
	}
	return "a boolean"
}
