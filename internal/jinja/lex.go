package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type kind uint8

const (
	textToken   kind = iota // text between tags
	beginOutput             // {{
	endOutput
	beginTag // {%
	endTag
	name
	str // val is the unescaped string
	number
	operator
	end // end of template
)

type token struct {
	kind kind
	val  string
	line int
}

// spell formats a token for messages.
func (t token) spell() string {
	switch t.kind {
	case end:
		return "the end of the template"
	case endOutput:
		return "}}"
	case endTag:
		return "%}"
	case str:
		return strconv.Quote(t.val)
	}
	return fmt.Sprintf("%q", t.val)
}

// lexer splits a template into tokens and strips white space as Jinja2 does.
type lexer struct {
	src    string
	at     int
	line   int
	fresh  bool // at a line start, or after a stripped line end
	tokens []token
}

// operators, longest first.
var operators = []string{
	"**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}",
	">", "<", "=", ".", ":", "|", ",", ";",
}

func lex(src string) ([]token, error) {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	l := &lexer{src: strings.TrimSuffix(src, "\n"), line: 1, fresh: true}
	for l.at < len(l.src) {
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	l.emit(end, "")
	return l.tokens, nil
}

func (l *lexer) emit(k kind, val string) { l.tokens = append(l.tokens, token{k, val, l.line}) }

func (l *lexer) skip(n int) {
	l.line += strings.Count(l.src[l.at:l.at+n], "\n")
	l.at += n
}

// next lexes the text up to a tag, and the tag.
func (l *lexer) next() error {
	rest := l.src[l.at:]
	open := -1
	for i := 0; i+1 < len(rest); i++ {
		if rest[i] == '{' && (rest[i+1] == '{' || rest[i+1] == '%' || rest[i+1] == '#') {
			open = i
			break
		}
	}
	if open < 0 {
		l.text(rest)
		l.skip(len(rest))
		return nil
	}
	sort := rest[open+1]
	sign := byte(0)
	if len(rest) > open+2 && (rest[open+2] == '-' || rest[open+2] == '+' && sort != '{') {
		sign = rest[open+2]
	}
	l.before(rest[:open], sign, sort != '{')
	l.skip(open + 2)
	if sign != 0 {
		l.skip(1)
	}
	switch sort {
	case '#':
		i := strings.Index(l.src[l.at:], "#}")
		if i < 0 {
			return fmt.Errorf("line %d: unclosed comment {#", l.line)
		}
		l.closed(i, 2, i > 0 && l.src[l.at+i-1] == '-', true)
		return nil
	case '%':
		l.emit(beginTag, "{%")
		return l.inside(endTag, "%}")
	}
	l.emit(beginOutput, "{{")
	return l.inside(endOutput, "}}")
}

// before emits the text before a tag: stripped with a minus sign; without a sign, white space from
// the line start to a block tag is removed (lstrip_blocks).
func (l *lexer) before(text string, sign byte, trim bool) {
	line := strings.LastIndexByte(text, '\n') + 1
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, isSpace)
	case sign == 0 && trim && (line > 0 || l.fresh) && strings.TrimLeftFunc(text[line:], isSpace) == "":
		text = text[:line]
	}
	l.text(text)
}

func (l *lexer) text(s string) {
	if s != "" {
		l.emit(textToken, s)
	}
}

// closed skips the end of a tag, n bytes at i, and following white space: all of it with a minus
// sign, else one line end after a block tag (trim_blocks).
func (l *lexer) closed(i, n int, minus, trim bool) {
	l.skip(i + n)
	from := l.at
	if minus {
		rest := l.src[l.at:]
		l.skip(len(rest) - len(strings.TrimLeftFunc(rest, isSpace)))
	} else if trim && strings.HasPrefix(l.src[l.at:], "\n") {
		l.skip(1)
	}
	l.fresh = l.at > from && l.src[l.at-1] == '\n'
}

// inside lexes a tag up to its end.
func (l *lexer) inside(k kind, close string) error {
	line := l.line
	var open []byte // brackets
	for l.at < len(l.src) {
		rest := l.src[l.at:]
		if len(open) == 0 {
			minus := rest[0] == '-' && strings.HasPrefix(rest[1:], close)
			plus := rest[0] == '+' && k == endTag && strings.HasPrefix(rest[1:], close)
			if minus || plus || strings.HasPrefix(rest, close) {
				l.emit(k, close)
				if minus || plus {
					l.skip(1)
				}
				l.closed(0, 2, minus, k == endTag && !plus)
				return nil
			}
		}
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case isSpace(r):
			l.skip(size)
		case r == '_' || unicode.IsLetter(r):
			n := strings.IndexFunc(rest, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
			if n < 0 {
				n = len(rest)
			}
			l.emit(name, rest[:n])
			l.skip(n)
		case r >= '0' && r <= '9':
			n := numberLength(rest)
			l.emit(number, strings.ReplaceAll(rest[:n], "_", ""))
			l.skip(n)
		case r == '"' || r == '\'':
			n := stringLength(rest)
			if n == 0 {
				return fmt.Errorf("line %d: unclosed string %c", l.line, r)
			}
			val, err := unescape(rest[1 : n-1])
			if err != nil {
				return fmt.Errorf("line %d: %w", l.line, err)
			}
			l.emit(str, val)
			l.skip(n)
		default:
			op := ""
			for _, o := range operators {
				if strings.HasPrefix(rest, o) {
					op = o
					break
				}
			}
			switch op {
			case "":
				return fmt.Errorf("line %d: unexpected character %q", l.line, r)
			case "(", "[", "{":
				open = append(open, "()[]{}"[strings.Index("([{", op)*2+1])
			case ")", "]", "}":
				if len(open) == 0 || open[len(open)-1] != op[0] {
					return fmt.Errorf("line %d: unexpected %q", l.line, op)
				}
				open = open[:len(open)-1]
			}
			l.emit(operator, op)
			l.skip(len(op))
		}
	}
	return fmt.Errorf("line %d: unclosed tag, expected %s", line, close)
}

// numberLength is the length of the number at the start of s.
func numberLength(s string) int {
	digits := func(i int) int {
		for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '_' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9') {
			i++
		}
		return i
	}
	n := digits(0)
	if n+1 < len(s) && s[n] == '.' && s[n+1] >= '0' && s[n+1] <= '9' {
		n = digits(n + 1)
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		i := n + 1
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if j := digits(i); j > i && s[i] != '_' {
			n = j
		}
	}
	return n
}

// stringLength is the length of the string literal at the start of s, 0 if unclosed.
func stringLength(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return 0
}

// unescape decodes the inside of a string literal as Python does.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		c := s[i]
		if at := strings.IndexByte(`\'"abfnrtv`, c); at >= 0 {
			b.WriteByte("\\'\"\a\b\f\n\r\t\v"[at])
			continue
		}
		width := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
		switch {
		case c == '\n':
		case c >= '0' && c <= '7':
			n := 1
			for n < 3 && i+n < len(s) && s[i+n] >= '0' && s[i+n] <= '7' {
				n++
			}
			v, _ := strconv.ParseUint(s[i:i+n], 8, 32)
			b.WriteRune(rune(v))
			i += n - 1
		case width > 0:
			if i+width >= len(s) {
				return "", fmt.Errorf("truncated escape \\%c", c)
			}
			v, err := strconv.ParseUint(s[i+1:i+1+width], 16, 32)
			if err != nil || !utf8.ValidRune(rune(v)) {
				return "", fmt.Errorf("invalid escape \\%s", s[i:i+1+width])
			}
			b.WriteRune(rune(v))
			i += width
		case c == 'N':
			return "", fmt.Errorf("unsupported escape \\N")
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

// isSpace reports white space as Python's str does.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }
