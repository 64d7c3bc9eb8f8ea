package tokenizer

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// DecodeStream turns ids into text one by one, as a model makes them. What its calls give, one
// after another, is what Decode gives for all ids at once. To continue a prompt, give it the
// prompt's ids first and drop their text: some tokenizers leave out the space before a first
// word. A DecodeStream is for one goroutine.
type DecodeStream struct {
	t       *Tokenizer
	plain   bool
	begun   bool
	waiting int32  // a token whose text depends on whether it is the last, or -1
	strip   int    // how many of the decoder's edge may still be left out
	held    []byte // text that is not given yet
}

// DecodeStream begins a text. plain leaves out special tokens, as DecodeSkipSpecial does.
func (t *Tokenizer) DecodeStream(plain bool) *DecodeStream {
	s := &DecodeStream{t: t, plain: plain}
	s.begin()
	return s
}

func (s *DecodeStream) begin() {
	s.begun, s.waiting, s.strip, s.held = false, -1, s.t.decoder.left, s.held[:0]
}

// Next is the text that an id adds. A character comes when it is whole.
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

// Close is what is left: the bytes of a character that did not become whole, or what the end
// of the text decides. The stream may then begin another text.
func (s *DecodeStream) Close() string {
	out := string(s.end())
	s.begin()
	return out
}

// end is the rest of the text.
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

// add puts the text of an id behind what is held.
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

// text is what a token stands for that is the first of a text, or the last. Where a pattern of
// the decoder gives up it is the text in the middle, and Err is not nil.
func (t *Tokenizer) text(id int32, first, last bool) (text string) {
	defer func() {
		if p := recover(); p != nil {
			t.fail(patternFailure(p))
			text = t.texts[id]
		}
	}()
	return t.decoder.text(t.names[id], t.names[id] != t.spelled[id], first, last)
}

// partial is the number of bytes at the end that may begin a longer character.
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

// Decode gives the text of ids, special tokens included. Ids outside the vocabulary give
// nothing. The text is whatever bytes the tokens stand for, which need not be UTF-8.
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
