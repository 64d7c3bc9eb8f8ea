package data

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"trireme/fault"
)

const (
	textPiece  = 1 << 20 // maximum bytes of a piece; longer files are split
	cutWithin  = 1 << 18 // distance of a cut from the end of a piece
	cutTries   = 32      // cuts tried of each kind
	cutContext = 256     // bytes on each side for testing a cut
)

// readText reads a file as one document. A long one comes in pieces, cut where the tokens are the
// same as in the whole text, according to s.sameCut: at a line end, or at a space. The cuts depend
// on the text alone.
func (s *source) readText(file int, in io.Reader, f func(*entry) error) error {
	e := entry{at: lineOf(file, 0)}
	buf := make([]byte, 0, textPiece+cutContext)
	line := int64(1)
	for {
		n, err := io.ReadFull(in, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil && err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		end, next := len(buf), len(buf)
		if e.more = err == nil; e.more {
			end, next = s.cut(buf)
		}
		if len(buf) == 0 && !e.rest {
			return nil
		}
		text, err := s.cleanPiece(file, buf[:end], line)
		if err != nil {
			return err
		}
		e.fields = map[string]any{s.field: text}
		if err := f(&e); err != nil || !e.more {
			return err
		}
		line += int64(bytes.Count(buf[:next], []byte{'\n'}))
		buf = append(buf[:0], buf[next:]...)
		e.rest = true
	}
}

// cut returns the end of the piece at the start of b and the start of the next: after a line end;
// or else at a space, which belongs to the next piece or, since tokenizers prepend one, to neither.
func (s *source) cut(b []byte) (end, next int) {
	line, ok := s.cutAt(b, '\n', 1, 1)
	if ok {
		return line + 1, line + 1
	}
	if space, ok := s.cutAt(b, ' ', 0, 0); ok {
		return space, space
	}
	if space, ok := s.cutAt(b, ' ', 0, 1); ok {
		return space, space + 1
	}
	i := line + 1
	if line < 0 {
		i = textPiece
	}
	for k := 0; k < utf8.UTFMax && !utf8.RuneStart(b[i]); k++ {
		i--
	}
	return i, i
}

// cutAt finds the last byte of a kind, alone between words, at which b can be cut; end and next are
// offsets from it. If no cut preserves the tokens, ok is false and at is the last candidate, or -1.
func (s *source) cutAt(b []byte, kind byte, end, next int) (at int, ok bool) {
	at = -1
	for i, tries := textPiece-1, 0; i > textPiece-cutWithin && tries < cutTries; i-- {
		if b[i] != kind || isSpace(b[i-1]) || isSpace(b[i+1]) {
			continue
		}
		tries++
		at = max(at, i)
		lo, hi := i-cutContext, min(len(b), i+1+cutContext)
		if s.sameCut == nil || s.sameCut(string(b[lo:hi]), string(b[lo:i+end]), string(b[i+next:hi])) {
			return i, true
		}
	}
	return at, false
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// cleanPiece is cleanText for part of a file starting at line.
func (s *source) cleanPiece(file int, b []byte, line int64) (string, error) {
	text, err := s.cleanText(string(b), "")
	if err == nil {
		return text, nil
	}
	at := 0
	for at < len(b) && b[at] != 0 {
		if r, n := utf8.DecodeRune(b[at:]); r != utf8.RuneError || n > 1 {
			at += n
			continue
		}
		break
	}
	line += int64(bytes.Count(b[:at], []byte{'\n'}))
	return "", rowError(lineOf(file, line).in(s.files), err)
}

// cleanText rejects or replaces what is not UTF-8 text. column is for messages; "": none.
func (s *source) cleanText(text, column string) (string, error) {
	if strings.IndexByte(text, 0) >= 0 {
		return "", fault.Try(fmt.Errorf("NUL byte%s: not a text file", inColumn(column)), "convert it to UTF-8")
	}
	return s.cleanString(text, column)
}

// cleanString is cleanText for formats whose texts may contain NUL.
func (s *source) cleanString(text, column string) (string, error) {
	switch {
	case utf8.ValidString(text):
		return text, nil
	case s.lenient:
		return strings.ToValidUTF8(text, "\ufffd"), nil
	}
	return "", invalidText("invalid UTF-8" + inColumn(column))
}

func inColumn(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" in %q", name)
}
