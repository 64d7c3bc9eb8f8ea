package tokenizer

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// splitter divides a text into pieces that follow one another; emit is called with each.
type splitter interface {
	split(text string, emit func(piece string))
}

// The patterns that are code here, as tokenizer.json files spell them.
const (
	patternGPT2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternGPT2b  = `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternLlama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen2  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// newSplitter gives the code of a known pattern, or compiles another. keep says that what
// no match covers is a piece too.
func newSplitter(pattern string, keep bool) (splitter, error) {
	switch pattern {
	case patternGPT2, patternGPT2b:
		return gpt2Split{}, nil
	case patternLlama3:
		return llama3Split{digits: 3}, nil
	case patternQwen2:
		return llama3Split{digits: 1}, nil
	}
	re, err := regexp2.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	return &regexSplit{re, keep}, nil
}

// class is what the patterns ask of a rune.
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

// at is the class and length of the rune at s[i]; a byte that is not UTF-8 is one of other.
func at(s string, i int) (class, int) {
	if c := s[i]; c < utf8.RuneSelf {
		return ascii[c], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return classOf(r), n
}

// run is the end of the longest stretch of runes of class c from i.
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

// spaces ends the piece of white space that begins at i, whose rune is n bytes long:
// \s+(?!\S)|\s+, all of it at the end of the text, else without its last rune unless that
// is the only one.
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

func (gpt2Split) split(s string, emit func(string)) {
	for i := 0; i < len(s); {
		j := gpt2End(s, i)
		emit(s[i:j])
		i = j
	}
}

// gpt2End is the end of the piece that begins at i.
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

// contraction is the length of 's 't 're 've 'm 'll 'd at the start of s, or 0.
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

// llama3Split is patternLlama3, or patternQwen2 with one digit a piece.
type llama3Split struct{ digits int }

func (l llama3Split) split(s string, emit func(string)) {
	for i := 0; i < len(s); {
		j := l.end(s, i)
		emit(s[i:j])
		i = j
	}
}

// end is the end of the piece that begins at i: the alternatives of the pattern, in order.
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

// foldedContraction is contraction without regard to case; U+017F folds to s.
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

// digitSplit makes each number rune a piece of its own, or each run of them.
type digitSplit struct{ each bool }

func (d digitSplit) split(s string, emit func(string)) {
	lo := 0
	for i := 0; i < len(s); {
		c, n := at(s, i)
		if c != number {
			i += n
			continue
		}
		if i > lo {
			emit(s[lo:i])
		}
		end := i + n
		if !d.each {
			end = run(s, end, number)
		}
		emit(s[i:end])
		lo, i = end, end
	}
	if lo < len(s) {
		emit(s[lo:])
	}
}

// prefixSplit puts a space before a text that does not begin with one.
type prefixSplit struct{}

func (prefixSplit) split(s string, emit func(string)) {
	if s != "" && s[0] != ' ' {
		s = " " + s
	}
	emit(s)
}

// regexSplit runs a pattern that is not known in advance.
type regexSplit struct {
	re   *regexp2.Regexp
	keep bool // what lies between matches is a piece
}

func (r *regexSplit) split(s string, emit func(string)) {
	// An error here is a match that took too long, and no limit is set.
	found, _ := r.re.FindAllStringIndex(s, -1)
	lo := 0
	for _, m := range found {
		if r.keep && m[0] > lo {
			emit(s[lo:m[0]])
		}
		if m[1] > m[0] {
			emit(s[m[0]:m[1]])
		}
		lo = m[1]
	}
	if r.keep && lo < len(s) {
		emit(s[lo:])
	}
}
