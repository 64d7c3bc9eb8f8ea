package monitor

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"
)

// EscapeControl escapes control characters, so that text from a file or a server cannot move a
// terminal's cursor, change its colors or reverse the direction of the text after it: ESC becomes \x1b.
// Line ends and tabs stay.
func EscapeControl(text string) string {
	out, _ := appendClean(make([]byte, 0, len(text)), text, true)
	return string(out)
}

// appendClean appends text to dst. Unless last is true, an incomplete character at the end is returned
// in left.
func appendClean(dst []byte, text string, last bool) (out []byte, left string) {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && n == 1 && !last && !utf8.FullRuneInString(text[i:]):
			return dst, text[i:]
		case r == utf8.RuneError && n == 1:
			dst = fmt.Appendf(dst, `\x%02x`, text[i])
		case r == '\r' && strings.HasPrefix(text[i:], "\r\n"):
			dst = append(dst, '\r')
		case r == '\r':
			dst = append(dst, `\r`...)
		case r < ' ' && r != '\n' && r != '\t', r >= 0x7f && r < 0xa0:
			dst = fmt.Appendf(dst, `\x%02x`, r)
		case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // embeddings, overrides and isolates
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = append(dst, text[i:i+n]...)
		}
		i += n
	}
	return dst, ""
}

// ControlEscaper is an io.Writer that applies EscapeControl. It is safe for concurrent use.
type ControlEscaper struct {
	w    io.Writer
	mu   sync.Mutex
	left string // start of an incomplete character
}

// NewControlEscaper returns a ControlEscaper that writes to w.
func NewControlEscaper(w io.Writer) *ControlEscaper { return &ControlEscaper{w: w} }

func (c *ControlEscaper) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []byte
	out, c.left = appendClean(nil, c.left+string(p), false)
	if _, err := c.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// UnderlyingFile returns the file that w writes to, for code that draws on a terminal.
func UnderlyingFile(w io.Writer) (*os.File, bool) {
	if c, ok := w.(*ControlEscaper); ok {
		w = c.w
	}
	f, ok := w.(*os.File)
	return f, ok
}
