package tokenizer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// splitters are the steps of the section "pre_tokenizer".
type splitters struct {
	list []splitter
	// byteLevel is set if the last step is byte-level. The step is not in list, since byteBPE does
	// not need it.
	byteLevel bool
}

func (p *splitters) add(s ...splitter) {
	if p.byteLevel {
		p.list, p.byteLevel = append(p.list, alphabetSplit{}), false
	}
	p.list = append(p.list, s...)
}

func (p *splitters) read(raw json.RawMessage) error {
	if absent(raw) {
		return nil
	}
	var n struct {
		Type          string            `json:"type"`
		PreTokenizers []json.RawMessage `json:"pretokenizers"`
		AddPrefix     *bool             `json:"add_prefix_space"`
		UseRegex      *bool             `json:"use_regex"`
		Each          bool              `json:"individual_digits"`
		Behavior      *string           `json:"behavior"`
		Invert        bool              `json:"invert"`
		Pattern       *pattern          `json:"pattern"`
		Delimiter     string            `json:"delimiter"`
		Replacement   string            `json:"replacement"`
		Scheme        *string           `json:"prepend_scheme"`
		Split         *bool             `json:"split"`
	}
	if err := decode(raw, &n); err != nil {
		return err
	}
	switch n.Type {
	case "Sequence":
		for _, part := range n.PreTokenizers {
			if err := p.read(part); err != nil {
				return err
			}
		}
	case "ByteLevel":
		if orTrue(n.AddPrefix) {
			p.add(prefixSplit{})
		}
		if orTrue(n.UseRegex) {
			p.add(gpt2Split{})
		}
		p.add()
		p.byteLevel = true
	case "Digits":
		p.add(digitSplit{n.Each})
	case "Split":
		s, err := newSplit(n.Pattern, value(n.Behavior), n.Invert)
		if err != nil {
			return err
		}
		p.add(s)
	case "Punctuation":
		behavior := "Isolated"
		if n.Behavior != nil {
			behavior = *n.Behavior
		}
		s, err := newMatchSplit(runes(isPunct), behavior, false)
		if err != nil {
			return err
		}
		p.add(s)
	case "Whitespace":
		p.add(&matchSplit{wordRuns{}, removed, true})
	case "WhitespaceSplit":
		p.add(&matchSplit{runes(unicode.IsSpace), removed, false})
	case "CharDelimiterSplit":
		r, m := utf8.DecodeRuneInString(n.Delimiter)
		if m == 0 || m < len(n.Delimiter) {
			return fmt.Errorf("CharDelimiterSplit needs one character as its delimiter, not %.20q", n.Delimiter)
		}
		p.add(&matchSplit{runes(func(c rune) bool { return c == r }), removed, false})
	case "BertPreTokenizer":
		p.add(bertSplit{})
	case "Metaspace":
		m := metaspace{mark: n.Replacement, scheme: "always", whole: !orTrue(n.Split)}
		switch {
		case n.Scheme != nil:
			m.scheme = *n.Scheme
		case !orTrue(n.AddPrefix):
			m.scheme = "never"
		}
		if err := m.check(); err != nil {
			return err
		}
		p.add(m)
	default:
		return unknownType(n.Type, "Sequence", "ByteLevel", "Digits", "Split", "Punctuation", "Whitespace", "WhitespaceSplit", "CharDelimiterSplit", "BertPreTokenizer", "Metaspace")
	}
	return nil
}

// newSplit returns the splitter Split: Go code for a known pattern, else the regexp engine.
func newSplit(p *pattern, behavior string, invert bool) (splitter, error) {
	if p != nil && p.Regex != nil {
		// These patterns match everything, so inverted Removed also keeps all matches.
		if s := patternSplit(*p.Regex); s != nil && (behavior == "Isolated" || behavior == "Removed" && invert) {
			return s, nil
		}
	}
	f, err := p.finder()
	if err != nil {
		return nil, fmt.Errorf("Split: %w", err)
	}
	return newMatchSplit(f, behavior, invert)
}

// behavior is Split's behavior for matches.
type behavior int

const (
	isolated   behavior = iota // own pieces
	removed                    // dropped
	contiguous                 // own pieces; adjacent ones are joined
	previous                   // merged with the preceding piece
	next                       // merged with the following piece
)

var behaviors = map[string]behavior{
	"Isolated": isolated, "Removed": removed, "Contiguous": contiguous, "MergedWithPrevious": previous, "MergedWithNext": next,
}

// matchSplit splits at matches of a pattern; if inverted, at the ranges between them.
type matchSplit struct {
	finder   finder
	behavior behavior
	invert   bool
}

var _ splitter = (*matchSplit)(nil)

func newMatchSplit(f finder, name string, invert bool) (*matchSplit, error) {
	b, ok := behaviors[name]
	if !ok {
		return nil, fmt.Errorf("behavior %q is not supported. known: %s", name, strings.Join(slices.Sorted(maps.Keys(behaviors)), ", "))
	}
	return &matchSplit{f, b, invert}, nil
}

func (m *matchSplit) split(s string, first bool, emit pieceFunc) {
	held := pieceRange{} // pending, may be joined with the next range
	flush := func() {
		if held.lo < held.hi {
			emit(s[held.lo:held.hi], first && held.lo == 0)
		}
		held = pieceRange{}
	}
	take := func(lo, hi int, match bool) {
		match = match != m.invert
		joins := false
		switch m.behavior {
		case removed:
			if match {
				return
			}
		case contiguous:
			joins = held.any && match == held.match
		case previous:
			joins = held.any && match && !held.match
		case next:
			joins = held.any && held.match && !match
		}
		if joins {
			held.hi, held.match = hi, match
			return
		}
		flush()
		held = pieceRange{lo, hi, match, true}
	}
	at := 0
	m.finder.each(s, func(lo, hi int) {
		if at < lo {
			take(at, lo, false)
		}
		take(lo, hi, true)
		at = hi
	})
	if at < len(s) {
		take(at, len(s), false)
	}
	flush()
}

type pieceRange struct {
	lo, hi int
	match  bool // of the last range merged into it
	any    bool
}

// metaspace replaces spaces by a mark, prepends one, and splits before each mark.
type metaspace struct {
	mark   string
	scheme string // prepend scheme: always, never or first
	whole  bool   // do not split
}

var _ splitter = metaspace{}

func (m metaspace) check() error {
	if utf8.RuneCountInString(m.mark) != 1 {
		return fmt.Errorf("Metaspace needs one character as its replacement, not %.20q", m.mark)
	}
	switch m.scheme {
	case "always", "never", "first":
		return nil
	}
	return fmt.Errorf("prepend_scheme %q is not supported. known: always, never, first", m.scheme)
}

func (m metaspace) split(s string, first bool, emit pieceFunc) {
	s = strings.ReplaceAll(s, " ", m.mark)
	if (m.scheme == "always" || m.scheme == "first" && first) && !strings.HasPrefix(s, m.mark) {
		s = m.mark + s
	}
	for !m.whole {
		i := strings.Index(s[min(len(s), 1):], m.mark)
		if i < 0 {
			break
		}
		emit(s[:i+1], first)
		s, first = s[i+1:], false
	}
	emit(s, first)
}

// alphabetSplit encodes a piece in GPT-2's alphabet.
type alphabetSplit struct{}

func (alphabetSplit) split(s string, first bool, emit pieceFunc) { emit(toRunes(s), first) }
