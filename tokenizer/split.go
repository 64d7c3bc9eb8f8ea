package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// pieceFunc receives the pieces of a text in order. first marks a piece at the start of the text.
type pieceFunc func(piece string, first bool)

// splitter splits a text into pieces, which it may modify.
type splitter interface {
	split(text string, first bool, emit pieceFunc)
}

// Patterns with Go code, as in tokenizer.json files.
const (
	patternGPT2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternGPT2b  = `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternLlama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen2  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// patternSplit returns the code of a known pattern with behavior Isolated, or nil.
func patternSplit(pattern string) splitter {
	switch pattern {
	case patternGPT2, patternGPT2b:
		return gpt2Split{}
	case patternLlama3:
		return llama3Split{digits: 3}
	case patternQwen2:
		return llama3Split{digits: 1}
	}
	return nil
}

// class is a character class of the patterns.
type class uint8

const (
	other  class = iota
	letter       // \p{L}
	number       // \p{N}
	space        // \s: Unicode's White_Space
)

var ascii = func() (t [utf8.RuneSelf]class) {
	for r := range t {
		t[r] = classOf(rune(r))
	}
	return t
}()

func classOf(r rune) class {
	switch {
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return other
}

// at returns the class and length of the rune at s[i]; an invalid byte is other.
func at(s string, i int) (class, int) {
	if c := s[i]; c < utf8.RuneSelf {
		return ascii[c], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return classOf(r), n
}

// run returns the end of the run of class c from i.
func run(s string, i int, c class) int {
	for i < len(s) {
		k, n := at(s, i)
		if k != c {
			break
		}
		i += n
	}
	return i
}

// spaces returns the end of the match of \s+(?!\S)|\s+ at i, whose rune has n bytes: all white
// space at the end of the text, else all but its last rune, but at least one.
func spaces(s string, i, n int) int {
	end, last := i+n, i
	for end < len(s) {
		k, n := at(s, end)
		if k != space {
			if last > i {
				return last
			}
			return end
		}
		last = end
		end += n
	}
	return end
}

// gpt2Split is patternGPT2.
type gpt2Split struct{}

func (gpt2Split) split(s string, first bool, emit pieceFunc) {
	for i := 0; i < len(s); {
		j := gpt2End(s, i)
		emit(s[i:j], first && i == 0)
		i = j
	}
}

// gpt2End returns the end of the piece at i.
func gpt2End(s string, i int) int {
	if s[i] == '\'' {
		if n := contraction(s[i:]); n > 0 {
			return i + n
		}
	}
	j := i
	if s[i] == ' ' && i+1 < len(s) {
		j++
	}
	c, n := at(s, j)
	if c != space {
		return run(s, j+n, c)
	}
	_, n = at(s, i)
	return spaces(s, i, n)
}

// contraction returns the length of 's 't 're 've 'm 'll 'd at the start of s, or 0.
func contraction(s string) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(s) < 3 {
		return 0
	}
	switch s[1:3] {
	case "re", "ve", "ll":
		return 3
	}
	return 0
}

// llama3Split is patternLlama3, or patternQwen2 with one digit per piece.
type llama3Split struct{ digits int }

func (l llama3Split) split(s string, first bool, emit pieceFunc) {
	for i := 0; i < len(s); {
		j := l.end(s, i)
		emit(s[i:j], first && i == 0)
		i = j
	}
}

// end returns the end of the piece at i, trying the pattern's alternatives in order.
func (l llama3Split) end(s string, i int) int {
	if s[i] == '\'' {
		if n := foldedContraction(s[i:]); n > 0 {
			return i + n
		}
	}
	c, n := at(s, i)
	switch {
	case c == letter:
		return run(s, i+n, letter)
	case c == number:
		return l.number(s, i)
	case s[i] != '\r' && s[i] != '\n' && i+n < len(s):
		if k, m := at(s, i+n); k == letter {
			return run(s, i+n+m, letter)
		} else if k == other && s[i] == ' ' {
			return newlines(s, run(s, i+n, other))
		}
	}
	if c == other {
		return newlines(s, run(s, i, other))
	}
	end := run(s, i, space)
	for j := end; j > i; j-- {
		if b := s[j-1]; b == '\r' || b == '\n' {
			return j
		}
	}
	return spaces(s, i, n)
}

func (l llama3Split) number(s string, i int) int {
	for k := 0; k < l.digits && i < len(s); k++ {
		c, n := at(s, i)
		if c != number {
			break
		}
		i += n
	}
	return i
}

func newlines(s string, i int) int {
	for i < len(s) && (s[i] == '\r' || s[i] == '\n') {
		i++
	}
	return i
}

// foldedContraction is contraction ignoring case; U+017F folds to s.
func foldedContraction(s string) int {
	if len(s) >= 3 && s[1:3] == "\u017f" {
		return 3
	}
	var low [3]byte
	n := copy(low[:], s)
	for i := range low {
		if 'A' <= low[i] && low[i] <= 'Z' {
			low[i] += 'a' - 'A'
		}
	}
	return contraction(string(low[:n]))
}

// digitSplit isolates each number rune, or each run of them.
type digitSplit struct{ each bool }

func (d digitSplit) split(s string, first bool, emit pieceFunc) {
	lo := 0
	for i := 0; i < len(s); {
		c, n := at(s, i)
		if c != number {
			i += n
			continue
		}
		if i > lo {
			emit(s[lo:i], first && lo == 0)
		}
		end := i + n
		if !d.each {
			end = run(s, end, number)
		}
		emit(s[i:end], first && i == 0)
		lo, i = end, end
	}
	if lo < len(s) {
		emit(s[lo:], first && lo == 0)
	}
}

// prefixSplit prepends a space to a text without one.
type prefixSplit struct{}

func (prefixSplit) split(s string, first bool, emit pieceFunc) {
	if s != "" && s[0] != ' ' {
		s = " " + s
	}
	emit(s, first)
}
