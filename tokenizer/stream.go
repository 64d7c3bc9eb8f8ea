package tokenizer

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// DecodeStream decodes ids incrementally; the concatenated results equal Decode of all ids. To
// continue a prompt, feed the prompt's ids first and drop their text, because some tokenizers omit the
// space before the first word. A DecodeStream must not be used concurrently.
type DecodeStream struct {
	t       *Tokenizer
	plain   bool
	begun   bool
	waiting int32  // a token whose text depends on being last, or -1
	strip   int    // characters the decoder may still strip
	held    []byte // text not returned yet
}

// DecodeStream returns a new stream. plain skips special tokens.
func (t *Tokenizer) DecodeStream(plain bool) *DecodeStream {
	s := &DecodeStream{t: t, plain: plain}
	s.begin()
	return s
}

func (s *DecodeStream) begin() {
	s.begun, s.waiting, s.strip, s.held = false, -1, s.t.decoder.left, s.held[:0]
}

// Next returns the text that id completes. Incomplete characters are held back.
func (s *DecodeStream) Next(id int32) string {
	s.add(id)
	d := &s.t.decoder
	whole := len(s.held) - partial(s.held)
	for n := 0; n < d.right && bytes.HasSuffix(s.held[:whole], []byte(d.edge)); n++ {
		whole -= len(d.edge)
	}
	out := string(s.held[:whole])
	s.held = append(s.held[:0], s.held[whole:]...)
	return out
}

// Close returns the remaining text, including bytes of an incomplete character. The stream can then
// be reused.
func (s *DecodeStream) Close() string {
	out := string(s.end())
	s.begin()
	return out
}

// end returns the remaining text.
func (s *DecodeStream) end() []byte {
	d := &s.t.decoder
	if s.waiting >= 0 {
		s.put(s.waiting, true)
	}
	for n := 0; n < d.right && bytes.HasSuffix(s.held, []byte(d.edge)); n++ {
		s.held = s.held[:len(s.held)-len(d.edge)]
	}
	return s.held
}

// add appends the text of an id to held.
func (s *DecodeStream) add(id int32) {
	t := s.t
	if id < 0 || int(id) >= len(t.names) || t.names[id] == "" || s.plain && t.special[id] {
		return
	}
	if t.lastMatters {
		id, s.waiting = s.waiting, id
		if id < 0 {
			return
		}
	}
	s.put(id, false)
}

func (s *DecodeStream) put(id int32, last bool) {
	t := s.t
	text := t.texts[id]
	if t.firstMatters && !s.begun || last {
		text = t.text(id, !s.begun, last)
	}
	s.begun = true
	for s.strip > 0 && text != "" {
		if !strings.HasPrefix(text, t.decoder.edge) {
			s.strip = 0
			break
		}
		text = text[len(t.decoder.edge):]
		s.strip--
	}
	s.held = append(s.held, text...)
}

// text returns the text of a token that is first or last. If a decoder pattern exceeds its limits,
// it returns the text for other positions and sets Err.
func (t *Tokenizer) text(id int32, first, last bool) (text string) {
	defer func() {
		if p := recover(); p != nil {
			t.fail(patternFailure(p))
			text = t.texts[id]
		}
	}()
	return t.decoder.text(t.names[id], t.names[id] != t.spelled[id], first, last)
}

// partial returns the length of an incomplete character at the end.
func partial(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// Decode returns the text of ids, including special tokens. It ignores ids outside the vocabulary. The
// text may be invalid UTF-8.
func (t *Tokenizer) Decode(ids []int32) string { return t.decode(ids, false) }

// DecodeSkipSpecial is Decode without special tokens.
func (t *Tokenizer) DecodeSkipSpecial(ids []int32) string { return t.decode(ids, true) }

func (t *Tokenizer) decode(ids []int32, plain bool) string {
	s := t.DecodeStream(plain)
	s.held = make([]byte, 0, 4*len(ids)+8)
	for _, id := range ids {
		s.add(id)
	}
	return string(s.end())
}
