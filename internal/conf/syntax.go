package conf

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"

	"trireme/internal/filekind"
)

// notText reports bytes that are not UTF-8 text; nil for text.
func notText(from *origin, text string) *Problem {
	if k, ok := filekind.Detect(from.label, []byte(text[:min(len(text), filekind.HeadSize)])); ok {
		return &Problem{Where: from.label, Text: fmt.Sprintf("is %s, not a configuration. try: %s", k.Name, k.Try)}
	}
	if len(text) > 3 && (text[0] == 0 && text[2] == 0 || text[1] == 0 && text[3] == 0) {
		return &Problem{Where: from.label, Text: "is text in UTF-16. try: iconv -f UTF-16 -t UTF-8 " + from.label}
	}
	line := 1
	for l := range strings.Lines(text) {
		for i, r := range l {
			if r != 0 && (r != utf8.RuneError || strings.HasPrefix(l[i:], "\ufffd")) {
				continue
			}
			at := from.at(line, 1+utf8.RuneCountInString(l[:i]))
			if r == 0 {
				return &Problem{Where: at, Text: fmt.Sprintf("contains a NUL byte (%s). try: remove it", quoted(l))}
			}
			return &Problem{Where: at, Text: fmt.Sprintf("byte 0x%02x is not UTF-8 (%s). try: iconv -f LATIN1 -t UTF-8 %s, if the file is in Latin-1", l[i], quoted(l), from.label)}
		}
		line++
	}
	return nil
}

// quoted quotes a line for a message.
func quoted(line string) string {
	line = strings.TrimRight(line, " \r\n")
	if len(line) > 60 {
		line = strings.ToValidUTF8(line[:60], "") + "..."
	}
	return fmt.Sprintf("%q", line)
}

// Blank reports whether a document has only space and comments.
func Blank(text string) bool {
	for l := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		if l = strings.TrimSpace(l); l != "" && l[0] != '#' && l != "---" && l != "..." {
			return false
		}
	}
	return true
}

// syntaxProblem explains a parser error: position, cause, the line's text, and a suggestion.
func syntaxProblem(from *origin, text string, err error) Problem {
	var located interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if !errors.As(err, &located) {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return Problem{Where: from.label, Text: "is not YAML: " + line}
	}
	s := &syntax{lines: strings.Split(text, "\n")}
	if t := located.GetToken(); t != nil && t.Position != nil {
		s.line, s.col = t.Position.Line, t.Position.Column
	}
	what, try := s.explain(located.GetMessage())
	p := Problem{Where: from.at(s.line, s.col), Text: what}
	if l := s.at(s.line); l != "" {
		p.Text += " (" + quoted(l) + ")"
	}
	if try != "" {
		p.Text += ". try: " + try
	}
	return p
}

// syntax is a text with the position of an error, from 1.
type syntax struct {
	lines     []string
	line, col int
}

func (s *syntax) at(line int) string {
	if line < 1 || line > len(s.lines) {
		return ""
	}
	return strings.TrimRight(s.lines[line-1], "\r")
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// content returns a line without surrounding space and comment.
func content(line string) string {
	if i := strings.Index(" "+line, " #"); i >= 0 {
		line = line[:max(0, i-1)]
	}
	return strings.TrimSpace(line)
}

// near returns the first line with content from line in steps of 1 or -1, or 0.
func (s *syntax) near(line, step int) int {
	for ; line >= 1 && line <= len(s.lines); line += step {
		if content(s.at(line)) != "" {
			return line
		}
	}
	return 0
}

// explain moves the position to the error and explains it.
func (s *syntax) explain(message string) (what, try string) {
	if line := s.tabbed(); line > 0 {
		s.line, s.col = line, 1
		return "the line is indented with a tab, but YAML needs spaces", "two spaces for the tab"
	}
	if strings.Contains(message, "end character of") {
		return "a quote is not closed", "the same quote at the end of the value"
	}
	if line, col, bracket, missing := s.open(); bracket != 0 {
		s.line, s.col = line, col
		if missing {
			return fmt.Sprintf("the %c is not closed", bracket), fmt.Sprintf("%c where its values end", closing[bracket])
		}
		return fmt.Sprintf("a %c without an opening bracket", bracket), "remove it"
	}
	switch line := s.at(s.line); {
	case strings.Contains(message, "must be specified"):
		return "a comma is missing between two values", "a comma before " + quoted(tail(line, s.col))
	case strings.Contains(message, "invalid key for this map"):
		return "inside { }, a value with [, ] or a comma needs quotes", `quotes around the value: {split: "train[:5]"}`
	case strings.Contains(message, "is a reserved character"), strings.Contains(message, "directive"):
		return fmt.Sprintf("a value cannot begin with %.1q", tail(line, s.col)), "quotes around the value"
	case strings.Count(content(line)+" ", ": ") > 1 && !strings.ContainsAny(line, `"'{`):
		return "a second colon in one line", "quotes around the value, or the second key in a line of its own, indented"
	}
	if strings.Contains(message, "mapping value is not allowed") { // reported at the value before
		if next := s.near(s.line+1, 1); next > 0 && indent(s.at(next)) > indent(s.at(s.line)) {
			s.line = next
		}
	}
	line := content(s.at(s.line))
	if line != "" && !strings.Contains(line+" ", ": ") && !strings.HasPrefix(line, "-") {
		s.col = 1 + indent(s.at(s.line))
		return "the line is not a key with a value", "a colon after the key: KEY: VALUE"
	}
	if before := s.near(s.line-1, -1); before > 0 {
		has, above := indent(s.at(s.line)), indent(s.at(before))
		s.col = 1 + has
		switch list := strings.HasPrefix(line, "-"); {
		case list != strings.HasPrefix(content(s.at(before)), "-"):
			return "list elements (- ...) and keys are mixed", "one of them, or the list indented below its key"
		case has > above:
			return fmt.Sprintf("the line is indented by %d, deeper than line %d, which already has a value", has, before), fmt.Sprintf("%d spaces", above)
		case has < above:
			return fmt.Sprintf("the line is indented by %d, unlike the lines above", has), fmt.Sprintf("%d spaces", above)
		}
	}
	return "is not YAML: " + message, ""
}

// tail returns a line from a column on.
func tail(line string, col int) string {
	r := []rune(line)
	return string(r[min(len(r), max(0, col-1)):])
}

// tabbed returns the first line up to the error that is indented with a tab, or 0.
func (s *syntax) tabbed() int {
	for n := 1; n <= min(s.line+1, len(s.lines)); n++ {
		l := s.at(n)
		if strings.Contains(l[:len(l)-len(strings.TrimLeft(l, " \t"))], "\t") && strings.TrimSpace(l) != "" {
			return n
		}
	}
	return 0
}

var closing = map[rune]rune{'{': '}', '[': ']'}

// open finds an unmatched bracket outside quotes and comments: one that is not closed (missing) or not
// opened. bracket is 0 if all match.
func (s *syntax) open() (line, col int, bracket rune, missing bool) {
	type position struct {
		line, col int
		bracket   rune
	}
	var stack []position
	for n := range s.lines {
		quote, last := rune(0), ' '
		for i, r := range []rune(s.at(n + 1)) {
			switch {
			case quote != 0:
				if r == quote && last != '\\' {
					quote = 0
				}
			case r == '#' && last == ' ':
				r = '\n'
			case (r == '"' || r == '\'') && bytes.ContainsRune([]byte(" {[,:"), last):
				quote = r
			case (r == '{' || r == '[') && (len(stack) > 0 || last == ' '):
				stack = append(stack, position{n + 1, i + 1, r})
			case r == '}' || r == ']':
				if k := len(stack) - 1; k >= 0 && closing[stack[k].bracket] == r {
					stack = stack[:k]
				} else if k >= 0 {
					return stack[k].line, stack[k].col, stack[k].bracket, true
				} else if last != ' ' && i > 0 && n+1 == s.line {
					return n + 1, i + 1, r, false
				}
			}
			if r == '\n' {
				break
			}
			last = r
		}
	}
	if len(stack) > 0 {
		return stack[0].line, stack[0].col, stack[0].bracket, true
	}
	return 0, 0, 0, false
}
