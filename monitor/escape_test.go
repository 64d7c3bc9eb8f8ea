package monitor

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"plain \u00e9 \u4f60\n\tx": "plain \u00e9 \u4f60\n\tx",
		"a\x1b[2Jb":                `a\x1b[2Jb`,
		"a\rb\r\n":                 "a\\rb\r\n",
		"\x07\x00\x7f":             `\x07\x00\x7f`,
		"\u009b31m":                `\x9b31m`,
		"\x9b31m\xff":              `\x9b31m\xff`,
		"\xe4\xbd":                 `\xe4\xbd`,
		"\u202eb\u2066":            `\u202eb\u2066`,
	} {
		if got := EscapeControl(text); got != want {
			t.Errorf("Clean(%q) is %q, not %q", text, got, want)
		}
	}
}

// Writes may split characters.
func FuzzControlEscaper(f *testing.F) {
	f.Add("\u4f60\x1b[2J\u00e9", 1)
	f.Add("a\x9b\xe4\xbd", 2)
	f.Fuzz(func(t *testing.T, text string, n int) {
		var b bytes.Buffer
		w := NewControlEscaper(&b)
		n = max(1, n%8)
		for rest := text; rest != ""; rest = rest[min(n, len(rest)):] {
			if k, err := w.Write([]byte(rest[:min(n, len(rest))])); err != nil || k != min(n, len(rest)) {
				t.Fatal(k, err)
			}
		}
		w.Write([]byte("."))
		got := b.String()
		for _, r := range got {
			if r < ' ' && r != '\n' && r != '\t' && r != '\r' || r >= 0x7f && r < 0xa0 {
				t.Fatalf("%q has %q", got, r)
			}
		}
		if !utf8.ValidString(got) || utf8.ValidString(text) && n >= len(text) && got != EscapeControl(text)+"." {
			t.Fatalf("%q of %q", got, text)
		}
	})
}
