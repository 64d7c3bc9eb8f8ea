package tokenizer

import (
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// spModel is the part of sentencepiece's ModelProto that encoding needs, with the field numbers of
// sentencepiece_model.proto.
type spModel struct {
	pieces       []spPiece
	kind         uint64 // spUnigram, spBPE, ...
	suffix       bool   // treat_whitespace_as_suffix
	byteFallback bool
	charsMap     []byte
	dummyPrefix  bool
	trimSpaces   bool // remove_extra_whitespaces
	escapeSpaces bool // escape_whitespaces
}

type spPiece struct {
	text  string
	score float32
	kind  uint64
}

const (
	spUnigram = 1
	spBPE     = 2

	spNormal      = 1
	spUnknown     = 2
	spControl     = 3
	spUserDefined = 4
	spUnused      = 5
	spByte        = 6
)

// readModelProto parses a tokenizer.model.
func readModelProto(b []byte) (*spModel, error) {
	m := &spModel{kind: spUnigram, dummyPrefix: true, trimSpaces: true, escapeSpaces: true}
	err := fields(b, "the model", func(f field) error {
		switch f.num {
		case 1:
			p := spPiece{kind: spNormal}
			what := fmt.Sprintf("piece %d", len(m.pieces))
			if err := fields(f.bytes, what, func(f field) error {
				switch f.num {
				case 1:
					p.text = string(f.bytes)
				case 2:
					p.score = math.Float32frombits(f.fixed32)
				case 3:
					p.kind = f.varint
				}
				return nil
			}); err != nil {
				return err
			}
			m.pieces = append(m.pieces, p)
		case 2:
			return fields(f.bytes, "trainer_spec", func(f field) error {
				switch f.num {
				case 3:
					m.kind = f.varint
				case 24:
					m.suffix = f.varint != 0
				case 35:
					m.byteFallback = f.varint != 0
				}
				return nil
			})
		case 3:
			return fields(f.bytes, "normalizer_spec", func(f field) error {
				switch f.num {
				case 2:
					m.charsMap = f.bytes
				case 3:
					m.dummyPrefix = f.varint != 0
				case 4:
					m.trimSpaces = f.varint != 0
				case 5:
					m.escapeSpaces = f.varint != 0
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m, m.check()
}

// check rejects invalid models.
func (m *spModel) check() error {
	if len(m.pieces) == 0 {
		return fmt.Errorf("no pieces: not a sentencepiece model")
	}
	seen := make(map[string]int, len(m.pieces))
	unknown := -1
	for i, p := range m.pieces {
		old, twice := seen[p.text]
		seen[p.text] = i
		switch {
		case p.text == "" || !utf8.ValidString(p.text):
			return fmt.Errorf("piece %d is empty or not UTF-8: %.40q", i, p.text)
		case twice:
			return fmt.Errorf("pieces %d and %d are both %.40q", old, i, p.text)
		case p.kind < spNormal || p.kind > spByte:
			return fmt.Errorf("piece %d, %.40q, has unknown type %d", i, p.text, p.kind)
		case p.score != p.score || math.IsInf(float64(p.score), 0):
			return fmt.Errorf("piece %d, %.40q, has score %v", i, p.text, p.score)
		case p.kind == spByte:
			if _, ok := byteOf(p.text); !ok {
				return fmt.Errorf("piece %d, %.40q, has type byte, but its text is not like <0x0A>", i, p.text)
			}
		case p.kind == spUnknown && unknown >= 0:
			return fmt.Errorf("pieces %d and %d both have type unknown", unknown, i)
		case p.kind == spUnknown:
			unknown = i
		}
	}
	if unknown < 0 {
		return fmt.Errorf("no piece has type unknown")
	}
	return nil
}

// field is one field of a message.
type field struct {
	num     protowire.Number
	varint  uint64
	fixed32 uint32
	bytes   []byte
}

// fields calls f for each field of a message, named what in errors.
func fields(b []byte, what string, f func(field) error) error {
	for size := len(b); len(b) > 0; {
		at := size - len(b)
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%s: not a protobuf message at byte %d: %w", what, at, protowire.ParseError(n))
		}
		b = b[n:]
		v := field{num: num}
		switch kind {
		case protowire.VarintType:
			v.varint, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			v.fixed32, n = protowire.ConsumeFixed32(b)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, kind, b)
		}
		if n < 0 {
			return fmt.Errorf("%s: field %d at byte %d is truncated: %w", what, num, at, protowire.ParseError(n))
		}
		b = b[n:]
		if err := f(v); err != nil {
			return err
		}
	}
	return nil
}
