package view

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"trireme/monitor"
)

// maxMarks is the number of combining marks kept after a character.
const maxMarks = 4

// runeWidth returns the columns of a printable rune. It is never less than what a terminal uses, except for
// characters of ambiguous width in East Asian settings.
func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case r == 0xfe0f: // an emoji follows the wide form
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// textWidth returns the columns of text without control characters.
func textWidth(text string) (n int) {
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

// clean returns text as one line that cannot move the cursor: control characters are escaped, tabs and line ends
// become spaces, other invisible characters (such as those that change the direction of text) become �, and
// stacks of combining marks are cut.
func clean(text string) string {
	plain := true
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			plain = false
			break
		}
	}
	if plain {
		return text
	}
	text = strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ").Replace(text)
	marks := 0
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Mn, unicode.Me) {
			if marks++; marks > maxMarks {
				return -1
			}
			return r
		}
		marks = 0
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, monitor.EscapeControl(text))
}

// cut returns the first columns of text, and the rest.
func cut(text string, columns int) (head, rest string) {
	n := 0
	for i, r := range text {
		if n += runeWidth(r); n > columns {
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// truncate cuts text to columns, with a mark if something is missing.
func truncate(text string, columns int, mark string) string {
	if textWidth(text) <= columns {
		return text
	}
	if columns < textWidth(mark) {
		head, _ := cut(text, columns)
		return head
	}
	head, _ := cut(text, columns-textWidth(mark))
	return head + mark
}

// wrap splits text into lines of up to columns.
func wrap(text string, columns int) (lines []string) {
	for columns = max(columns, 2); text != ""; {
		head, rest := cut(text, columns)
		if at := strings.LastIndexByte(head, ' '); rest != "" && rest[0] != ' ' && at > len(head)/2 {
			head, rest = head[:at], head[at+1:]+rest
		}
		lines, text = append(lines, head), strings.TrimPrefix(rest, " ")
	}
	return lines
}
