package tokenizer

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dlclark/regexp2/v2"
)

// finder finds matches from left to right; they may be empty.
type finder interface {
	each(s string, match func(lo, hi int))
}

// pattern is a pattern of tokenizer.json: a regular expression or a string.
type pattern struct {
	Regex  *string
	String *string
}

func (p *pattern) finder() (finder, error) {
	switch {
	case p != nil && p.Regex != nil:
		return newRegex(*p.Regex)
	case p != nil && p.String != nil && *p.String != "":
		return literal(*p.String), nil
	}
	return nil, fmt.Errorf("a pattern needs Regex or String")
}

// replace returns the normalizer that replaces matches with text.
func (p *pattern) replace(text string) (normalizer, error) {
	f, err := p.finder()
	if err != nil {
		return nil, err
	}
	if old, ok := f.(literal); ok {
		return func(s string) string { return strings.ReplaceAll(s, string(old), text) }, nil
	}
	return func(s string) string {
		var b strings.Builder
		last := 0
		f.each(s, func(lo, hi int) {
			b.WriteString(s[last:lo])
			b.WriteString(text)
			last = hi
		})
		if last == 0 && b.Len() == 0 {
			return s
		}
		b.WriteString(s[last:])
		return b.String()
	}, nil
}

// literal finds a nonempty string.
type literal string

func (l literal) each(s string, match func(lo, hi int)) {
	for at := 0; ; {
		i := strings.Index(s[at:], string(l))
		if i < 0 {
			return
		}
		match(at+i, at+i+len(l))
		at += i + len(l)
	}
}

// runes finds single characters.
type runes func(r rune) bool

func (is runes) each(s string, match func(lo, hi int)) {
	for i := 0; i < len(s); {
		r, n := runeAt(s, i)
		if is(r) {
			match(i, i+n)
		}
		i += n
	}
}

// wordRuns finds \w+|[^\w\s]+.
type wordRuns struct{}

func (wordRuns) each(s string, match func(lo, hi int)) {
	kind := func(i int) (k, n int) {
		r, n := runeAt(s, i)
		switch {
		case isWord(r):
			return 1, n
		case classOf(r) == space:
			return 0, n
		}
		return 2, n
	}
	for i := 0; i < len(s); {
		k, n := kind(i)
		lo := i
		i += n
		for k != 0 && i < len(s) {
			next, n := kind(i)
			if next != k {
				break
			}
			i += n
		}
		if k != 0 {
			match(lo, i)
		}
	}
}

// Limits of one search. Untrusted files may have patterns that backtrack endlessly, such as
// ([a-z]+)*Q; a search in ordinary text takes microseconds.
const (
	searchTime  = 5 * time.Second
	searchStack = 1 << 26 // 8-byte words
)

// regex finds a regular expression.
type regex struct {
	expr   string
	re     *regexp2.Regexp
	failed atomic.Pointer[patternError] // set when a search exceeds its limits; later searches fail at once
}

// patternError is the panic value of a search that exceeds its limits. Append recovers it.
type patternError struct {
	expr  string
	bytes int // of the text
	limit time.Duration
	cause error
}

func (e *patternError) Error() string {
	what := fmt.Sprintf("backtracks for more than %v", e.limit)
	if errors.Is(e.cause, regexp2.ErrBacktrackingStackLimit) {
		what = fmt.Sprintf("backtracks through more than %d MiB", searchStack>>17)
	}
	return fmt.Sprintf("the pattern %.100q %s in a text of %d bytes", e.expr, what, e.bytes)
}

// newRegex compiles an expression in Oniguruma's syntax, which Hugging Face's tokenizers uses.
func newRegex(expr string) (*regex, error) {
	translated, err := fromOniguruma(expr)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", expr, err)
	}
	re, err := regexp2.Compile(translated, regexp2.Multiline, regexp2.OptionMaxBacktrackingStackSize(searchStack))
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", expr, err)
	}
	re.MatchTimeout = searchTime
	return &regex{expr: expr, re: re}, nil
}

// patternFailure returns the patternError of a panic and repanics others.
func patternFailure(p any) error {
	if e, ok := p.(*patternError); ok {
		return e
	}
	panic(p)
}

func (r *regex) each(s string, match func(lo, hi int)) {
	if s == "" {
		return
	}
	if old := r.failed.Load(); old != nil {
		panic(old)
	}
	found, err := r.re.FindAllStringIndex(s, -1)
	if err != nil && !errors.Is(err, regexp2.ErrBacktrackingStackLimit) {
		// The clock includes time in which the process was stopped, so retry once.
		found, err = r.re.FindAllStringIndex(s, -1)
	}
	if err != nil {
		e := &patternError{r.expr, len(s), r.re.MatchTimeout, err}
		r.failed.Store(e)
		panic(e)
	}
	for _, m := range found {
		match(m[0], m[1])
	}
}

// Classes whose meaning differs between Oniguruma and the engine used here.
var onigurumaClasses = map[byte]string{
	's': `\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000`,
	'w': `\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\p{Other_Alphabetic}`,
	'h': `0-9a-fA-F`,
}

// onigurumaWord is \w outside brackets, which includes some Latin-1 digits.
var onigurumaWord = onigurumaClasses['w'] + `\xb2\xb3\xb9\xbc-\xbe`

// interval is a repeated interval, which other engines read as possessive.
var interval = regexp.MustCompile(`^\{[0-9]*,?[0-9]*\}\+`)

// fromOniguruma translates an expression, or returns an error if the engine cannot express it.
func fromOniguruma(expr string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(expr); {
		switch c := expr[i]; {
		case c == '\\' && i+1 < len(expr):
			b.WriteString(outsideBrackets(expr[i : i+2]))
			i += 2
		case c == '[':
			class, n, err := fromBrackets(expr[i:])
			if err != nil {
				return "", err
			}
			b.WriteString(class)
			i += n
		case c == '{' && interval.MatchString(expr[i:]):
			return "", fmt.Errorf("+ after {} is not supported")
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String(), nil
}

// outsideBrackets translates a backslash escape.
func outsideBrackets(escape string) string {
	switch escape[1] {
	case 's', 'h':
		return "[" + onigurumaClasses[escape[1]] + "]"
	case 'S', 'H':
		return "[^" + onigurumaClasses[escape[1]|0x20] + "]"
	case 'w':
		return "[" + onigurumaWord + "]"
	case 'W':
		return "[^" + onigurumaWord + "]"
	case 'b', 'B':
		w := "[" + onigurumaWord + "]"
		if escape[1] == 'B' {
			return "(?:(?<=" + w + ")(?=" + w + ")|(?<!" + w + ")(?!" + w + "))"
		}
		return "(?:(?<=" + w + ")(?!" + w + ")|(?<!" + w + ")(?=" + w + "))"
	}
	return escape
}

// fromBrackets translates the bracket expression at the start of expr, of length n.
func fromBrackets(expr string) (class string, n int, err error) {
	i, negated := 1, ""
	if i < len(expr) && expr[i] == '^' {
		i, negated = 2, "^"
	}
	var members strings.Builder
	var complements []string // \S and the like
	for first := i; ; i++ {
		switch {
		case i >= len(expr):
			return "", 0, fmt.Errorf("missing ]")
		case expr[i] == ']' && i > first:
			class = "[" + negated + members.String() + "]"
			if complements != nil {
				any := strings.Join(complements, "|")
				if members.Len() > 0 {
					any += "|[" + members.String() + "]"
				}
				class = "(?:" + any + ")"
				if negated != "" {
					class = "(?:(?!" + any + ")(?s:.))"
				}
			}
			return class, i + 1, nil
		case expr[i] == '[':
			return "", 0, fmt.Errorf("[ within [] is not supported")
		case strings.HasPrefix(expr[i:], "&&"):
			return "", 0, fmt.Errorf("&& within [] is not supported")
		case expr[i] == '\\' && i+1 < len(expr):
			i++
			switch c := expr[i]; c {
			case 's', 'w', 'h':
				members.WriteString(onigurumaClasses[c])
			case 'S', 'W', 'H':
				complements = append(complements, "[^"+onigurumaClasses[c|0x20]+"]")
			default:
				members.WriteString(expr[i-1 : i+1])
			}
		default:
			members.WriteByte(expr[i])
		}
	}
}
