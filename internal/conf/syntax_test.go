package conf

import (
	"strings"
	"testing"
	"time"
)

// TestSyntax checks that messages of syntax errors have the line and a suggestion.
func TestSyntax(t *testing.T) {
	for text, want := range map[string]string{
		"model:\n\tpath: x\n":                   `x:2:1: the line is indented with a tab, but YAML needs spaces ("\tpath: x"). try: two spaces`,
		"model\n  path: x\ndata: {path: a}\n":   `x:1:1: the line is not a key with a value ("model"). try: a colon after the key`,
		"model:\n  path: x\n   config: y\n":     `x:3:4: the line is indented by 3, deeper than line 2, which already has a value ("   config: y"). try: 2 spaces`,
		"model: {path: x}\n data: {path: y}\n":  `x:2:2: the line is indented by 1, deeper than line 1`,
		"  model: {path: x}\ndata: {path: y}\n": `x:2:1: the line is indented by 0, unlike the lines above`,
		"model: {path: x\ndata: {path: a}\n":    `x:1:8: the { is not closed ("model: {path: x"). try: } where its values end`,
		"data: [a, b\nmodel: 1\n":               `x:1:7: the [ is not closed`,
		"{\"model\": {\"path\": \"x\"}":         `x:1:1: the { is not closed`,
		"{\"a\": \"y\" \"z\"}":                  `a comma is missing between two values`,
		"model: {path: x,, }}\n":                `x:1:20: a } without an opening bracket`,
		"model: {path: \"x}\ndata: {}\n":        `x:1:15: a quote is not closed`,
		"model: path: x\n":                      `x:1:8: a second colon in one line ("model: path: x"). try: quotes around the value`,
		"data: {path: x, split: train[:5]}\n":   `x:1:30: inside { }, a value with [, ] or a comma needs quotes`,
		"model: @x\n":                           `x:1:8: a value cannot begin with "@"`,
		"model: %x\n":                           `x:1:8: a value cannot begin with "%"`,
		"model: {path: x}\n- a\n":               `x:2:1: list elements (- ...) and keys are mixed`,
		"m\x00o\x00d\x00e\x00l\x00:\x00":        `x is text in UTF-16. try: iconv`,
		"\xff\xfem\x00o\x00":                    `x is text in UTF-16`,
		"a: 1\nb: \"caf\xe9\"\n":                `x:2:8: byte 0xe9 is not UTF-8`,
		"a: \x00":                               `x:1:4: contains a NUL byte`,
		"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n": `x is a Git LFS pointer, not the file itself, not a configuration. try: git lfs pull`,
	} {
		_, err := Parse("x", text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v\nlacks %s", text, err, want)
		}
	}
	for _, text := range []string{"", "\n# x\n", "---\n", "\ufeff# x"} {
		if !Blank(text) {
			t.Errorf("%q is not blank", text)
		}
	}
	if Blank("a:") {
		t.Error("a key is blank")
	}
	began := time.Now()
	if _, err := Parse("x", "a: "+strings.Repeat("\ufffd{", 4900)+"\x00"); err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}
