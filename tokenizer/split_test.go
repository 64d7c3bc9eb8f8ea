package tokenizer

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func pieces(s splitter, text string) (out []string) {
	s.split(text, true, func(p string, _ bool) { out = append(out, p) })
	return out
}

// split runs a pattern on the engine.
func split(t testing.TB, expr, behavior string, invert bool) splitter {
	t.Helper()
	re, err := newRegex(expr)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newMatchSplit(re, behavior, invert)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// hardText combines the characters that the patterns distinguish.
func hardText(t *rapid.T) string {
	parts := rapid.SliceOf(rapid.SampledFrom([]string{
		" ", "  ", "\t", "\n", "\r\n", "\r", "\u00a0", "\u2003", "\u0085", "\v", "a", "B", "é", "Ω", "中", "1", "23", "٣", "½", "Ⅷ",
		"'", "'s", "'S", "'re", "'LL", "'Ve", "'ſ", "’s", ".", "--", "_", "€", "😀", "e\u0301", "\u200d", "don't", "x'd",
	})).Draw(t, "parts")
	return strings.Join(parts, "")
}

func TestSplittersMatchPatterns(t *testing.T) {
	for name, c := range map[string]struct {
		code    splitter
		pattern string
	}{
		"gpt2":   {gpt2Split{}, patternGPT2},
		"gpt2b":  {gpt2Split{}, patternGPT2b},
		"llama3": {llama3Split{3}, patternLlama3},
		"qwen2":  {llama3Split{1}, patternQwen2},
	} {
		re := split(t, c.pattern, "Isolated", false)
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				text := hardText(t)
				if got, want := pieces(c.code, text), pieces(re, text); !slices.Equal(got, want) {
					t.Fatalf("%q: %q, want %q", text, got, want)
				}
			})
		})
	}
}

func TestSplitByHand(t *testing.T) {
	for _, c := range []struct {
		s    splitter
		text string
		want string // pieces, separated by |
	}{
		{gpt2Split{}, "Hello  world", "Hello| | world"},
		{gpt2Split{}, "a\n\n b  ", "a|\n\n| b|  "},
		{gpt2Split{}, "it's 'S x", "it|'s| '|S| x"},
		{gpt2Split{}, "\xff\xfea", "\xff\xfe|a"},
		{llama3Split{3}, "it'S 1234\n\n x", "it|'S| |123|4|\n\n| x"},
		{llama3Split{3}, "'ſ", "'ſ"},
		{llama3Split{1}, " 12 (a)\n\n", " |1|2| (|a|)\n\n"},
		{llama3Split{1}, "\tfoo", "\tfoo"},
		{llama3Split{1}, "a\u0085b", "a|\u0085b"},
		{digitSplit{true}, "a12b", "a|1|2|b"},
		{digitSplit{false}, "a12b3", "a|12|b|3"},
	} {
		if got := strings.Join(pieces(c.s, c.text), "|"); got != c.want {
			t.Errorf("%T %q: %q, want %q", c.s, c.text, got, c.want)
		}
	}
}

// The engine's stack is unlimited: a long run is one piece.
func TestLongRunsOnTheEngine(t *testing.T) {
	s := split(t, `\p{L}+|\s+(?!\S)|\s+|(?:a|-)+`, "Isolated", false)
	for _, text := range []string{strings.Repeat(" ", 300_000) + "x", strings.Repeat("é", 300_000), strings.Repeat("-", 300_000) + " y"} {
		got := pieces(s, text)
		if strings.Join(got, "") != text || len(got) > 3 {
			t.Errorf("%.5q...: %d pieces", text, len(got))
		}
	}
}

func TestUnknownPattern(t *testing.T) {
	s := split(t, `\d+(?=x)`, "Isolated", false)
	if got := pieces(s, "a\xff12x3é"); !slices.Equal(got, []string{"a\xff", "12", "x3é"}) {
		t.Errorf("%q", got)
	}
	s = split(t, `\w+`, "Removed", true)
	if got := pieces(s, " a b "); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q", got)
	}
}
