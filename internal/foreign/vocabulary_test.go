package foreign

import (
	"os"
	"strings"
	"testing"

	"trireme/internal/conf"
)

// TestVocabulary checks that every key that a program reads has a rule, and a row in the table.
func TestVocabulary(t *testing.T) {
	for name, f := range map[string]*format{"deepspeed": deepspeedFormat(), "accelerate": accelerateFormat()} {
		text, err := os.ReadFile("testdata/vocabulary/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		known := 0
		for line := range strings.Lines(string(text)) {
			path, value, has := strings.Cut(strings.TrimSpace(line), " = ")
			switch {
			case strings.HasPrefix(path, "#"):
			case has:
				taken(t, f, path, value)
			default:
				known++
				answered(t, f.keys, path)
			}
		}
		if known < 100 {
			t.Errorf("%s: %d keys are listed, which is not all", name, known)
		}
	}
}

// answered reports whether a key, or its group, has a rule.
func answered(t *testing.T, ks keys, path string) {
	t.Helper()
	at := ks
	for part := range strings.SplitSeq(path, ".") {
		rule, ok := at[part]
		switch {
		case !ok:
			t.Errorf("%s: not known", path)
			return
		case rule.under != nil:
			at = rule.under
		case rule.apply == nil || rule.doc == "":
			t.Errorf("%s: nothing says what becomes of it", path)
			return
		default:
			return
		}
	}
}

// taken reports whether a value is read, or refused for a reason other than being unknown.
func taken(t *testing.T, f *format, path, value string) {
	t.Helper()
	text := path + ": " + value + "\n"
	if group, key, ok := strings.Cut(path, "."); ok {
		text = "distributed_type: FSDP\n" + group + ": {" + key + ": " + value + "}\n"
	}
	if _, err := Read("x.yaml", text, Options{Format: f.name}); err != nil && strings.Contains(err.Error(), "is not one of") {
		t.Errorf("%s: %s: %v", path, value, err)
	}
}

// TestSays checks that every key of every format is in a table.
func TestSays(t *testing.T) {
	var walk func(path string, ks keys)
	walk = func(path string, ks keys) {
		for name, rule := range ks {
			if rule.under != nil {
				walk(path+name+".", rule.under)
			} else if rule.doc == "" || rule.apply == nil {
				t.Errorf("%s%s: nothing says what becomes of it", path, name)
			}
		}
	}
	for _, f := range formats() {
		walk(string(f.name)+": ", f.keys)
	}
}

// TestEnabled checks which values enable something.
func TestEnabled(t *testing.T) {
	for text, want := range map[string]bool{
		"v: null": false, "v: false": false, "v: 0": false, "v: 'no'": false, "v: auto": false, "v: []": false, "v: {}": false, "v: ''": false,
		"v: true": true, "v: 2": true, "v: [1]": true, "v: {mode: fixed}": true,
		"v: {enabled: false, depth: 3}": false, "v: {enabled: true}": true,
		"v: {a: {b: {enabled: true}, c: {x: 1}}, d: {enabled: false}}": true,
		"v: {a: {b: {enabled: false}, c: {x: 1}}}":                     false,
		"v: {enabled: false, a: {enabled: true}}":                      false,
	} {
		doc, err := conf.Parse("x", text)
		if err != nil {
			t.Fatal(err)
		}
		v, _ := doc.Find("v")
		if enabled(v) != want {
			t.Errorf("%s asks for something: %v", text, !want)
		}
	}
}
